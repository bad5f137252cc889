"""What ``run`` and ``wait`` on one job exit with, for every way that a job can end."""

from __future__ import annotations

from typing import Any

import pytest

from jobd.cli.exit_codes import outcome


def job(**more: Any) -> dict[str, Any]:
    """A failed job's info."""
    return {"state": "FAILED", "dispatch_time": "2026-01-01T00:00:00Z", **more}


@pytest.mark.parametrize(
    ("info", "code"),
    [
        (job(state="DONE", exit_status=0), 0),
        (job(exit_status=3), 3),
        (job(exit_status=255), 255),
        (job(terminating_signal="SIGKILL", sub_state="signalled"), 137),
        (job(terminating_signal="SIGRTMIN+3", sub_state="signalled"), 128 + 37),
        (job(start_error="not-found", sub_state="start-failed"), 127),
        (job(start_error="not-executable", sub_state="start-failed"), 126),
        (job(start_error="ENOENT", sub_state="start-failed"), 125),
        (job(sub_state="start-failed"), 125),
        (job(sub_state="dependency-failed"), 125),
        (job(sub_state="terminated", terminating_signal="SIGTERM"), 143),
        (job(sub_state="terminated", exit_status=0), 143),
        (job(sub_state="terminated", exit_status=7), 7),
        (job(sub_state="terminated", dispatch_time=None), 125),
        (job(sub_state="time-limit", terminating_signal="SIGTERM"), 124),
        (job(sub_state="deadline", exit_status=0), 124),
        (job(sub_state="exit-status-unknown"), 119),
        (job(sub_state="node-rebooted"), 119),
        (job(sub_state="lost"), 119),
        ({"state": "UNDETERMINED"}, 119),
    ],
    ids=str,
)
def test_outcome(info: dict[str, Any], code: int) -> None:
    assert outcome(info) == code


@pytest.mark.parametrize("status", [None, 0])
@pytest.mark.parametrize("cause", [None, "terminated", "time-limit", "lost", "from the future"])
def test_never_0_for_what_is_not_done(status: int | None, cause: str | None) -> None:
    assert outcome(job(exit_status=status, sub_state=cause)) != 0
