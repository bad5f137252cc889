"""Whether a job can be taken: everything that can be said of it before it is accepted is said now."""

from __future__ import annotations

from collections.abc import Container, Iterator

from jobd.backends.base import Backend
from jobd.model.errors import InvalidArgument, NotFound, UnsupportedAttribute
from jobd.model.template import JobTemplate, RawBytes, to_bytes
from jobd.rpc.context import Call
from jobd.rpc.methods import session

DEFAULT_QUEUE = "default"
DEFAULT_BACKEND = "local"

_NOT_YET = ("array", "after", "retries", "retry_on", "start_time", "deadline_time", "priority", "resources")


def admit(call: Call, template: JobTemplate, sessions: Container[str]) -> Backend:
    """The backend that takes the job.

    Raises:
        InvalidArgument: a value is out of range, or the request can never be met.
        UnsupportedAttribute: it can't be honoured, by name.
        NotFound: no such session, queue or backend.
    """
    _check_values(template)
    _check_slots(template, call.context.scheduler.slots)
    for name in _NOT_YET:
        if getattr(template, name) is not None:
            raise UnsupportedAttribute(f"{name} is not supported by this version", hint="leave it out")
    if (template.session or session.DEFAULT) not in sessions:
        raise NotFound(f"there is no session {template.session!r}", hint="make it with jobd session create")
    if template.queue_name not in (None, DEFAULT_QUEUE):
        raise NotFound(f"there is no queue {template.queue_name!r}", hint="jobd queue list shows the ones there are")
    backend = call.context.backend(template.backend or DEFAULT_BACKEND)
    backend.check(template, call.owner)
    return backend


def _check_values(template: JobTemplate) -> None:
    if not to_bytes(template.remote_command):
        raise InvalidArgument("remote_command is empty", hint="say which command to run")
    for name in _texts_with_nul(template):
        raise InvalidArgument(f"{name} has a NUL byte in it, which no command or path can have")
    _range(template, "umask", 0, 0o777)
    _range(template, "nice", -20, 19)
    if template.time_limit is not None and not template.time_limit > 0:
        raise InvalidArgument("time_limit must be more than 0 seconds")
    _check_redirection(template)


def _check_redirection(template: JobTemplate) -> None:
    """DRMAA2 leaves it open; a job that reads what it writes never ends, or reads nothing."""
    read = template.input_path
    if read is not None and read != "/dev/null" and read in (template.output_path, template.error_path):
        raise InvalidArgument("input_path is also an output path", hint="a job can't read the file that it writes")


def _check_slots(template: JobTemplate, available: int) -> None:
    wanted = {name: getattr(template, name) for name in ("slots", "min_slots", "max_slots")}
    for name, value in wanted.items():
        if value is not None and value < 1:
            raise InvalidArgument(f"{name} must be at least 1")
    low, high = wanted["min_slots"] or wanted["slots"] or 1, wanted["max_slots"] or wanted["slots"]
    if high is not None and low > high:
        raise InvalidArgument("min_slots is more than max_slots")
    need = template.slots or template.min_slots or 1
    if need > available:
        raise InvalidArgument(
            f"{need} slots can never be had: there are {available}",
            hint="ask for fewer, or raise [scheduler] slots",
        )


def _range(template: JobTemplate, name: str, low: int, high: int) -> None:
    value = getattr(template, name)
    if value is not None and not low <= value <= high:
        raise InvalidArgument(f"{name} must be from {low} to {high}")


def _texts_with_nul(template: JobTemplate) -> Iterator[str]:
    for name in template.__struct_fields__:
        if any(
            "\0" in text if isinstance(text, str) else b"\0" in to_bytes(text)
            for text in _texts(getattr(template, name))
        ):
            yield name


def _texts(value: object) -> Iterator[str | RawBytes]:
    if isinstance(value, str | RawBytes):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
