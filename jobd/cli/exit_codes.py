"""What ``run`` and ``wait`` on one job exit with. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

UNKNOWN = 119
TIMED_OUT = 124
NEVER_RAN = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127
SIGNALLED = 128
_TERM = 15
_START_ERRORS = {"not-found": NOT_FOUND, "not-executable": NOT_EXECUTABLE}


def outcome(job: dict[str, Any]) -> int:
    """The exit code for a finished job's info. Never 0 for a job that is not DONE."""
    if job["state"] == "DONE":
        return 0
    if job["state"] != "FAILED":
        return UNKNOWN
    cause = job.get("sub_state")
    if cause in ("time-limit", "deadline"):
        return TIMED_OUT
    if job.get("start_error") is not None:
        return _START_ERRORS.get(job["start_error"], NEVER_RAN)
    if cause in ("start-failed", "dependency-failed", "never-satisfiable"):
        return NEVER_RAN
    if job.get("terminating_signal"):
        return SIGNALLED + signal_number(job["terminating_signal"])
    if job.get("exit_status") is not None:
        # One that was terminated and exited 0 on the TERM is not DONE.
        return int(job["exit_status"]) or SIGNALLED + _TERM
    return NEVER_RAN if cause == "terminated" and job.get("dispatch_time") is None else UNKNOWN


def signal_number(name: str) -> int:
    """The number of a signal by its name, SIGRTMIN+N included."""
    import signal

    if name.startswith("SIGRTMIN+"):
        return int(signal.SIGRTMIN) + int(name.removeprefix("SIGRTMIN+"))
    return int(signal.Signals[name])
