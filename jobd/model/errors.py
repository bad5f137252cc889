"""Every error that jobd reports, with the one number that wire, command line and client share.

The names are those of DRMAA2 (GFD.231, section "Error Handling"); the numbers up to 13 are its ErrorID values, those
from 100 are jobd's own. An error crosses the socket as name, code, message, hint and the jobs it is about, and becomes
the same class again on the other side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


class JobdError(Exception):
    """Something jobd could not do.

    Attributes:
        code: stable number of the kind of error, the ``code`` of a JSON-RPC error.
        exit_code: what a command that fails with it exits with (docs/protocol.md has the table).
        message: a sentence that says what is wrong.
        hint: what to do about it, or None.
        jobs: ids of the jobs it is about.
    """

    code: ClassVar[int] = 6
    exit_code: ClassVar[int] = 69

    def __init__(self, message: str, *, hint: str | None = None, jobs: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.jobs = tuple(jobs)

    @property
    def name(self) -> str:
        """The DRMAA2 (or jobd) name of the error."""
        return type(self).__name__

    def to_wire(self) -> dict[str, Any]:
        """The error as a JSON-RPC error object."""
        data = {"name": self.name, "hint": self.hint, "jobs": list(self.jobs)}
        return {"code": self.code, "message": self.message, "data": data}


class DeniedByDrms(JobdError):
    """The caller may not do that."""

    code = 1
    exit_code = 5


class DrmCommunication(JobdError):
    """The daemon, or the backend behind it, can't be reached."""

    code = 2
    exit_code = 69


class TryLater(JobdError):
    """Not now, for a passing reason: still recovering, or too much asked at once."""

    code = 3
    exit_code = 69


class Timeout(JobdError):
    """The time that the caller allowed ran out."""

    code = 5
    exit_code = 124


class Internal(JobdError):
    """A fault in jobd itself."""

    code = 6
    exit_code = 69


class InvalidArgument(JobdError):
    """A request or template that is not valid."""

    code = 7
    exit_code = 2


class InvalidSession(JobdError):
    """The job session was closed or destroyed."""

    code = 8
    exit_code = 3


class InvalidState(JobdError):
    """The job's state does not allow it."""

    code = 9
    exit_code = 4


class OutOfResource(JobdError):
    """No room for new work: disk, memory or descriptors."""

    code = 10
    exit_code = 69


class UnsupportedAttribute(JobdError):
    """The backend can't honour an attribute of the template."""

    code = 11
    exit_code = 6


class UnsupportedOperation(JobdError):
    """The backend can't do that."""

    code = 12
    exit_code = 6


class NotFound(InvalidArgument):
    """No such job, session, queue or backend. DRMAA2 calls it InvalidArgument."""

    code = 100
    exit_code = 3


class CannotEnd(Timeout):
    """A job's processes outlived SIGKILL: they are in uninterruptible sleep."""

    code = 101
    exit_code = 124


class ProtocolMismatch(DrmCommunication):
    """Client and daemon share no version of the protocol."""

    code = 102
    exit_code = 69


class FrameTooLong(InvalidArgument):
    """A message is longer than the receiver takes. The connection is closed after it."""

    code = 103


class UnusableDatabase(DrmCommunication):
    """The database is damaged, foreign, newer or can't be written."""

    code = 104


def _all_errors(base: type[JobdError] = JobdError) -> list[type[JobdError]]:
    found: list[type[JobdError]] = []
    for child in base.__subclasses__():
        found += [child, *_all_errors(child)]
    return found


ALL_ERRORS = tuple(_all_errors())
"""Every kind of error."""

ERRORS: Mapping[int, type[JobdError]] = {error.code: error for error in ALL_ERRORS}
"""Every kind of error by its code."""


def first_of(group: BaseExceptionGroup[JobdError]) -> JobdError:
    """The first error of a group that a task group made, however deep."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, JobdError)
    return error


def from_wire(error: Mapping[str, Any]) -> JobdError:
    """The exception for a JSON-RPC error object; an unknown code is an Internal error that keeps the text."""
    data = error.get("data") or {}
    kind = ERRORS.get(error.get("code", 0), Internal)
    return kind(str(error.get("message", "")), hint=data.get("hint"), jobs=data.get("jobs") or ())
