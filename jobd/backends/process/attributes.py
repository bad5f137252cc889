"""What a process can honour of a template: everything else is refused by name, nothing is dropped (promise 6)."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping

import psutil

from jobd.model.errors import InvalidArgument, UnsupportedAttribute
from jobd.model.template import JobTemplate
from jobd.model.units import parse_duration, parse_size

HONOURED = frozenset(
    "remote_command args working_directory job_environment input_path output_path error_path join_files job_name "
    "queue_name slots min_slots candidate_machines min_phys_memory machine_os machine_arch submit_as_hold rerunnable "
    "resource_limits backend session env_mode umask nice append_output time_limit leave_children labels "
    "request_id".split()
)
_ASKED_TO_DO_NOTHING = (
    "email_on_started",
    "email_on_terminated",
    "native",
    "stage_in_files",
    "stage_out_files",
    "email",
)

_SIZES = {
    "CORE_FILE_SIZE": "RLIMIT_CORE",
    "DATA_SIZE": "RLIMIT_DATA",
    "FILE_SIZE": "RLIMIT_FSIZE",
    "STACK_SIZE": "RLIMIT_STACK",
    "VIRTUAL_MEMORY": "RLIMIT_AS",
}
_NUMBERS = {"OPEN_FILES": "RLIMIT_NOFILE"}
_DURATIONS = {"CPU_TIME": "RLIMIT_CPU"}
WALLCLOCK = "WALLCLOCK_TIME"

_ARCHITECTURES = {"x86_64": "X64", "aarch64": "ARM64", "i686": "X86", "ppc64": "PPC64", "ppc64le": "PPC64LE"}


def check(template: JobTemplate, machine: str) -> None:
    """Refuse what a process of this machine can't honour.

    Raises:
        UnsupportedAttribute: it can't be done here, by name.
        InvalidArgument: it can never be met, or a limit can't be read.
    """
    for name in template.__struct_fields__:
        value = getattr(template, name)
        if value is None or name in HONOURED or (name in _ASKED_TO_DO_NOTHING and not value):
            continue
        if name == "max_slots" and value == (template.slots or template.min_slots or 1):
            continue
        raise UnsupportedAttribute(f"{name} is not supported for processes", hint="leave it out")
    for name in template.job_environment or ():
        if not name or "=" in name:
            raise InvalidArgument(f"job_environment: {name!r} can't be the name of a variable")
    _check_machine(template, machine)
    time_limit(template)
    limits(template)


def _check_machine(template: JobTemplate, machine: str) -> None:
    if template.candidate_machines and machine not in template.candidate_machines:
        raise InvalidArgument(f"candidate_machines has not this machine, {machine}, and processes run here only")
    if template.min_phys_memory is not None and template.min_phys_memory > psutil.virtual_memory().total:
        raise InvalidArgument("min_phys_memory is more than this machine has")
    if template.machine_os is not None and template.machine_os.upper() != "LINUX":
        raise InvalidArgument(f"machine_os is {template.machine_os}, and this machine's is LINUX")
    here = _ARCHITECTURES.get(platform.machine(), "OTHER_CPU")
    if template.machine_arch is not None and template.machine_arch.upper() != here:
        raise InvalidArgument(f"machine_arch is {template.machine_arch}, and this machine's is {here}")


def time_limit(template: JobTemplate) -> float | None:
    """Seconds that a job may run: ``time_limit``, or DRMAA2's WALLCLOCK_TIME.

    Raises:
        InvalidArgument: both are set and differ, or it is nothing that a job could run for.
    """
    raw = (template.resource_limits or {}).get(WALLCLOCK)
    if raw is None:
        return template.time_limit
    seconds = _read(WALLCLOCK, raw, parse_duration)
    if not seconds > 0:
        raise InvalidArgument(f"{WALLCLOCK} must be more than 0 seconds")
    if template.time_limit not in (None, seconds):
        raise InvalidArgument(f"time_limit and {WALLCLOCK} are both set, and differ")
    return seconds


def limits(template: JobTemplate) -> dict[str, list[int]]:
    """Soft and hard value of each limit that is asked for, by its name in setrlimit(2); -1 is unlimited.

    Raises:
        InvalidArgument: a value can't be read.
        UnsupportedAttribute: there is no such limit.
    """
    found = {}
    for key, value in (template.resource_limits or {}).items():
        if key == WALLCLOCK:
            continue
        name = _SIZES.get(key) or _NUMBERS.get(key) or _DURATIONS.get(key)
        if name is None:
            raise UnsupportedAttribute(f"resource_limits has no {key}", hint=f"known are {', '.join(_known())}")
        number = _number(key, value)
        found[name] = [number, number]
    return found


def _known() -> list[str]:
    return sorted([*_SIZES, *_NUMBERS, *_DURATIONS, WALLCLOCK])


def _number(key: str, value: float | str) -> int:
    if value == "unlimited":
        return -1
    number = _read(key, value, _PARSERS[key])
    # A limit is an unsigned 64-bit number, whose highest value is the kernel's word for unlimited.
    if not 0 <= number < 2**63:
        raise InvalidArgument(f"{key} must be 0 or more, or unlimited")
    return int(number)


def _read(key: str, value: float | str, parse: Callable[[str], float]) -> float:
    try:
        return parse(value) if isinstance(value, str) else value
    except InvalidArgument as error:
        raise InvalidArgument(f"{key}: {error.message}", hint=error.hint) from error


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise InvalidArgument(f"{text!r} is not a number")
    return int(text)


_PARSERS: Mapping[str, Callable[[str], float]] = {
    **dict.fromkeys(_SIZES, parse_size),
    **dict.fromkeys(_NUMBERS, _count),
    **dict.fromkeys(_DURATIONS, parse_duration),
}
