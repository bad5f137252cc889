"""The job template (DRMAA2 GFD.231, "JobTemplate Structure") with jobd's own attributes.

Unset is None everywhere. What a string of the operating system may be (a path, an argument, an environment value) is
``Text``: a str where it is UTF-8, else ``RawBytes``. Durations are seconds, sizes bytes.
"""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

import msgspec

from jobd.model import text, units
from jobd.model.errors import InvalidArgument
from jobd.model.suggest import unknown_name


class RawBytes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A string that is not UTF-8, as base64."""

    b64: str


Text = str | RawBytes


def to_bytes(value: Text) -> bytes:
    """The bytes of a Text.

    Raises:
        InvalidArgument: its base64 is not valid.
    """
    return text.unwrap(value if isinstance(value, str) else {"b64": value.b64})


def to_text(value: str | bytes) -> Text:
    """The Text for a string or bytes of the operating system."""
    wrapped = text.wrap(value)
    return wrapped if isinstance(wrapped, str) else RawBytes(**wrapped)


class Dependency(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A job that has to come first, and how it has to end: ok, failed, any or started."""

    job: str
    on: str = "ok"


class ArrayRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The task indices of an array, and how many of its tasks may run at once."""

    begin: int
    end: int
    step: int = 1
    max_parallel: int | None = None


class JobTemplate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What to run, and how. Only ``remote_command`` must be set."""

    remote_command: Text
    args: tuple[Text, ...] | None = None
    working_directory: Text | None = None
    job_environment: dict[str, Text] | None = None
    input_path: Text | None = None
    output_path: Text | None = None
    error_path: Text | None = None
    join_files: bool | None = None
    job_name: Text | None = None
    job_category: str | None = None
    queue_name: str | None = None
    slots: int | None = None
    min_slots: int | None = None
    max_slots: int | None = None
    priority: int | None = None
    candidate_machines: tuple[str, ...] | None = None
    min_phys_memory: int | None = None
    machine_os: str | None = None
    machine_arch: str | None = None
    start_time: datetime | None = None
    deadline_time: datetime | None = None
    submit_as_hold: bool | None = None
    rerunnable: bool | None = None
    email: tuple[str, ...] | None = None
    email_on_started: bool | None = None
    email_on_terminated: bool | None = None
    stage_in_files: dict[str, Text] | None = None
    stage_out_files: dict[str, Text] | None = None
    resource_limits: dict[str, int | float | str] | None = None
    accounting_id: str | None = None
    reservation_id: str | None = None

    backend: str | None = None
    session: str | None = None
    env_mode: str | None = None
    umask: int | None = None
    memory: int | None = None
    memory_limit: int | None = None
    gpus: int | None = None
    resources: dict[str, int] | None = None
    nice: int | None = None
    append_output: bool | None = None
    time_limit: float | None = None
    leave_children: bool | None = None
    after: tuple[Dependency, ...] | None = None
    retries: int | None = None
    retry_on: tuple[str | int, ...] | None = None
    labels: dict[str, str] | None = None
    request_id: str | None = None
    native: dict[str, Any] | None = None
    array: ArrayRange | None = None


class Captured(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a job gets from its submitter without being asked for in words: it is no part of the template.

    ``environment`` holds ``NAME=value`` entries, so that names and values may be any bytes.
    """

    working_directory: Text | None = None
    environment: tuple[Text, ...] | None = None
    umask: int | None = None
    input: Text | None = None


_DURATIONS = frozenset({"time_limit"})
_SIZES = frozenset({"memory", "memory_limit", "min_phys_memory"})


def parse_template(raw: Any) -> JobTemplate:
    """A template from a dict as JSON or TOML gives it; durations and sizes may be written as people write them.

    Raises:
        InvalidArgument: an unknown name (with a suggestion), a wrong type, or a value that can't be read.
    """
    if not isinstance(raw, dict):
        raise InvalidArgument("a job template is an object with DRMAA2's attribute names")
    for name in raw:
        if name not in JobTemplate.__struct_fields__:
            raise unknown_name("template attribute", str(name), JobTemplate.__struct_fields__)
    values = {name: _read_units(name, value) for name, value in raw.items()}
    try:
        return msgspec.convert(values, JobTemplate)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"the job template is not valid: {error}") from error


def _read_units(name: str, value: Any) -> Any:
    if isinstance(value, str) and name in _DURATIONS:
        return units.parse_duration(value)
    if isinstance(value, str) and name in _SIZES:
        return units.parse_size(value)
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode("ascii")}
    return value
