"""What is known of a job or of a run of an array's tasks, as a sum type: each case has only the fields legal in it."""

from __future__ import annotations

import msgspec

from jobd.model.states import JobState


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Resources that an attempt's leader and the children that it waited for used (getrusage(2)).

    Times in seconds, ``max_rss`` in bytes, blocks as the kernel counts them. None is what is not known.
    """

    user_time: float | None = None
    system_time: float | None = None
    max_rss: int | None = None
    in_block: int | None = None
    out_block: int | None = None


class Exited(msgspec.Struct, frozen=True, tag="exited"):
    """The leader exited with this status, 0 to 255."""

    status: int


class Signalled(msgspec.Struct, frozen=True, tag="signalled"):
    """A signal ended the leader; ``signal`` is its name (SIGKILL)."""

    signal: str
    core_dumped: bool = False


class NotStarted(msgspec.Struct, frozen=True, tag="not-started"):
    """The command never ran. ``error`` is an errno's name (ENOENT) or None; ``step`` what could not be done.

    Steps are exec, lookup, chdir, stdin, stdout, stderr, limits, nice, identity; None where it was never tried.
    """

    step: str | None = None
    error: str | None = None


class Unknown(msgspec.Struct, frozen=True, tag="unknown"):
    """How it ended can't be known any more; the annotation says why."""


Outcome = Exited | Signalled | NotStarted | Unknown


class Waiting(msgspec.Struct, frozen=True, tag="waiting"):
    """QUEUED, QUEUED_HELD, REQUEUED or REQUEUED_HELD.

    ``granted_to`` names the keeper (or other agent of the backend) that was given the start; the intent of the attempt
    is committed with it.
    """

    state: JobState
    granted_to: str | None = None
    sub_state: str | None = None


class Active(msgspec.Struct, frozen=True, tag="active"):
    """RUNNING or SUSPENDED. Times are seconds since the epoch; ``native_id`` is the leader's pid for a process."""

    state: JobState
    native_id: str
    dispatch_time: float
    machines: tuple[str, ...] = ()
    granted_to: str | None = None
    sub_state: str | None = None


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """DONE or FAILED. ``wallclock_time`` is from start to end in seconds, by a clock that nobody can set."""

    state: JobState
    outcome: Outcome
    finish_time: float
    native_id: str | None = None
    dispatch_time: float | None = None
    wallclock_time: float | None = None
    machines: tuple[str, ...] = ()
    usage: Usage = Usage()
    sub_state: str | None = None
    annotation: str | None = None


class Undetermined(msgspec.Struct, frozen=True, tag="undetermined"):
    """The backend can't say; ``annotation`` tells what was tried."""

    annotation: str
    native_id: str | None = None
    dispatch_time: float | None = None
    sub_state: str | None = None

    @property
    def state(self) -> JobState:
        """UNDETERMINED."""
        return JobState.UNDETERMINED


Status = Waiting | Active | Ended | Undetermined
