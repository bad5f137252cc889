"""What observations make of a job, step by step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobd.backends.base import EndedSeen, RefusedSeen, StartedSeen, StoppedSeen
from jobd.bookkeeper import transitions
from jobd.model.errors import InvalidState
from jobd.model.ids import JobId
from jobd.model.info import info_of
from jobd.model.job import Job, Owner, Tasks
from jobd.model.states import JobState
from jobd.model.status import Active, Ended, Exited, NotStarted, Outcome, Signalled, Unknown, Waiting
from jobd.model.template import JobTemplate

JOB = Job(
    id=1,
    owner=Owner(1, "o"),
    session="default",
    backend="local",
    queue="default",
    template=JobTemplate(remote_command="true"),
    environment=None,
    submission_time=100.0,
    submission_machine="here",
)
GRANTED = Tasks(job=1, attempt=1, status=Waiting(JobState.QUEUED, granted_to="k"))


def started(at: float = 101.0, *, executed: bool = True) -> StartedSeen:
    return StartedSeen(id=JobId(1), attempt=1, native_id="7", at=at, machine="here", executed=executed)


def ended(outcome: Outcome, at: float = 105.0, wall: float | None = 4.0, cause: str | None = None) -> EndedSeen:
    return EndedSeen(id=JobId(1), attempt=1, outcome=outcome, at=at, wallclock_time=wall, cause=cause)


def after(tasks: Tasks, *seen: StartedSeen | StoppedSeen | EndedSeen | RefusedSeen) -> Tasks:
    """The tasks after all that was seen."""
    for one in seen:
        steps = transitions.observed(JOB, tasks, one)
        tasks = steps[-1] if steps else tasks
    return tasks


def end_of(tasks: Tasks) -> Ended:
    assert isinstance(tasks.status, Ended)
    return tasks.status


@pytest.mark.parametrize(
    ("outcome", "cause", "state", "sub_state"),
    [
        (Exited(0), None, JobState.DONE, None),
        (Exited(1), None, JobState.FAILED, None),
        (Signalled("SIGKILL"), None, JobState.FAILED, "signalled"),
        (Exited(0), "time-limit", JobState.FAILED, "time-limit"),
        (Signalled("SIGTERM"), "time-limit", JobState.FAILED, "time-limit"),
        (Unknown(), None, JobState.FAILED, "exit-status-unknown"),
        (NotStarted("exec", "ENOENT"), None, JobState.FAILED, "start-failed"),
    ],
)
def test_ends(outcome: Outcome, cause: str | None, state: JobState, sub_state: str | None) -> None:
    """A cause wins over a polite exit, whose status is kept."""
    end = end_of(after(GRANTED, started(), ended(outcome, cause=cause)))
    assert (end.state, end.sub_state, end.outcome) == (state, sub_state, outcome)


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9), st.none() | st.floats(0, 1e6))
def test_a_clock_that_is_set_shows_no_end_before_its_start(start: float, end: float, wall: float | None) -> None:
    info = info_of(JOB, after(GRANTED, started(at=abs(start)), ended(Exited(0), at=abs(end), wall=wall)))
    assert info.submission_time is not None
    assert info.dispatch_time is not None
    assert info.finish_time is not None
    assert info.submission_time <= info.dispatch_time <= info.finish_time
    assert info.wallclock_time == wall


def test_a_command_that_was_never_executed_did_not_start() -> None:
    running = after(GRANTED, started(executed=False))
    assert isinstance(running.status, Active)
    assert running.status.sub_state == "starting"
    info = info_of(JOB, after(running, ended(NotStarted("chdir", "ENOENT"))))
    assert (info.dispatch_time, info.wallclock_time, info.allocated_machines) == (None, None, ())
    assert info.start_error == "ENOENT"


def test_the_second_report_of_a_forked_child_keeps_pid_and_time() -> None:
    second = StartedSeen(id=JobId(1), attempt=1, native_id="", at=0.0, machine="here")
    running = after(GRANTED, started(executed=False), second)
    assert isinstance(running.status, Active)
    assert (running.status.native_id, running.status.dispatch_time, running.status.sub_state) == ("7", 101.0, None)


@pytest.mark.parametrize("attempt", [0, 2])
def test_what_is_seen_of_another_attempt_changes_nothing(attempt: int) -> None:
    stale = StartedSeen(id=JobId(1), attempt=attempt, native_id="7", at=1.0, machine="here")
    assert not transitions.observed(JOB, GRANTED, stale)


def test_a_start_that_came_back_counts_as_none() -> None:
    back = after(GRANTED, RefusedSeen(JobId(1), 1, "no room"))
    assert (back.attempt, back.status) == (0, Waiting(JobState.QUEUED, sub_state="no room"))
    assert transitions.intend(back, "k2").attempt == 1


def test_a_rerunnable_job_comes_back_after_a_reboot() -> None:
    again = Job(
        id=1,
        owner=JOB.owner,
        session="default",
        backend="local",
        queue="default",
        template=JobTemplate(remote_command="true", rerunnable=True),
        environment=None,
        submission_time=100.0,
        submission_machine="here",
    )
    lost = EndedSeen(id=JobId(1), attempt=1, outcome=Unknown(), at=9.0, sub_state="node-rebooted")
    (requeued,) = transitions.observed(again, after(GRANTED, started()), lost)
    assert requeued.state is JobState.REQUEUED
    assert transitions.intend(requeued, "k").attempt == 2
    assert end_of(after(after(GRANTED, started()), lost)).sub_state == "node-rebooted"


def test_requests_that_the_state_does_not_allow() -> None:
    running = after(GRANTED, started())
    with pytest.raises(InvalidState, match="RUNNING: it can't be held"):
        transitions.hold(running)
    with pytest.raises(InvalidState, match="RUNNING: it can't be released"):
        transitions.release(running)
    done = after(running, ended(Exited(0)))
    with pytest.raises(InvalidState, match="DONE: it can't be terminated"):
        transitions.cancelled(done, "terminated", 1.0)
