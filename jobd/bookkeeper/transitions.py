"""What an observation or a request makes of a run of tasks. Pure; the table of states is applied here alone."""

from __future__ import annotations

from collections.abc import Sequence

from jobd.backends.base import (
    ContinuedSeen,
    EndedSeen,
    FreedSeen,
    Observation,
    RefusedSeen,
    StartedSeen,
    StoppedSeen,
)
from jobd.model.errors import InvalidState
from jobd.model.job import Job, Tasks
from jobd.model.states import TRANSITIONS, JobState, Refusal, Trigger
from jobd.model.status import (
    Active,
    Ended,
    Exited,
    NotStarted,
    Outcome,
    Signalled,
    Status,
    Undetermined,
    Unknown,
    Waiting,
)

NODE_REBOOTED = "node-rebooted"
"""The sub-state of a job whose machine went down under it."""

STARTING = "starting"
"""The sub-state of a job that was forked but has not come to its exec."""


_ASKED = {
    Trigger.HOLD: "be held",
    Trigger.RELEASE: "be released",
    Trigger.STOP: "be suspended",
    Trigger.CONTINUE: "be resumed",
    Trigger.FAIL: "be terminated",
}


def follow(state: JobState, trigger: Trigger) -> JobState | None:
    """The state that follows, or None where the trigger changes nothing or is not allowed."""
    cell = TRANSITIONS[state, trigger]
    return cell if isinstance(cell, JobState) else None


def require(tasks: Tasks, trigger: Trigger) -> JobState:
    """The state that follows a request.

    Raises:
        InvalidState: the table does not allow it, or it is so already.
    """
    cell = TRANSITIONS[tasks.state, trigger]
    if isinstance(cell, Refusal):
        asked = _ASKED.get(trigger, trigger.value)
        raise InvalidState(f"job {tasks.id} is {tasks.state.name}: it can't {asked}", jobs=[str(tasks.id)])
    return cell


def hold(tasks: Tasks) -> Tasks:
    """QUEUED or REQUEUED to held; a granted start must have been taken back before."""
    return _with(tasks, Waiting(require(tasks, Trigger.HOLD)), attempt=_unstarted(tasks))


def release(tasks: Tasks) -> Tasks:
    """Held to QUEUED or REQUEUED."""
    return _with(tasks, Waiting(require(tasks, Trigger.RELEASE)))


def intend(tasks: Tasks, granted_to: str | None) -> Tasks:
    """The intent to start the next attempt, given to an agent of the backend."""
    return _with(tasks, Waiting(tasks.state, granted_to=granted_to or ""), attempt=tasks.attempt + 1)


def intended(tasks: Tasks) -> bool:
    """Whether a start of these tasks was given out and has not come back."""
    return isinstance(tasks.status, Waiting) and tasks.status.granted_to is not None


def cancelled(tasks: Tasks, cause: str, at: float, annotation: str | None = None) -> Tasks:
    """The end of tasks that never started: terminated while waiting."""
    state = require(tasks, Trigger.FAIL)
    ended = Ended(state, NotStarted(), at, sub_state=cause, annotation=annotation)
    return _with(tasks, ended, attempt=_unstarted(tasks), cause=cause)


def observed(job: Job, tasks: Tasks, seen: Observation) -> Sequence[Tasks]:
    """The steps that an observation makes of the tasks; empty where it says nothing new."""
    if seen.attempt != tasks.attempt or tasks.state.final:
        return ()
    match seen:
        case StartedSeen():
            return _started(job, tasks, seen)
        case StoppedSeen():
            return _moved(tasks, Trigger.STOP)
        case ContinuedSeen():
            return _moved(tasks, Trigger.CONTINUE)
        case RefusedSeen():
            return _refused(tasks, seen)
        case EndedSeen():
            return _ended(job, tasks, seen)
        case FreedSeen():
            return ()


def _with(tasks: Tasks, status: Status, *, attempt: int | None = None, cause: str | None = None) -> Tasks:
    return Tasks(
        job=tasks.job,
        first=tasks.first,
        last=tasks.last,
        attempt=tasks.attempt if attempt is None else attempt,
        status=status,
        cause=cause or tasks.cause,
    )


def _unstarted(tasks: Tasks) -> int:
    """The attempt's number without an intent that came back: the next intent is the same attempt."""
    return tasks.attempt - 1 if intended(tasks) else tasks.attempt


def _started(job: Job, tasks: Tasks, seen: StartedSeen) -> Sequence[Tasks]:
    status = tasks.status
    if isinstance(status, Active):
        if status.sub_state == STARTING and seen.executed:
            return (_with(tasks, _active(status, status.state)),)
        return ()
    state = follow(tasks.state, Trigger.START)
    if state is None:
        return ()
    active = Active(
        state,
        seen.native_id,
        max(seen.at, job.submission_time),
        machines=(seen.machine,),
        granted_to=seen.granted_to,
        sub_state=None if seen.executed else STARTING,
    )
    return (_with(tasks, active),)


def _active(status: Active, state: JobState, sub_state: str | None = None) -> Active:
    return Active(state, status.native_id, status.dispatch_time, status.machines, status.granted_to, sub_state)


def _moved(tasks: Tasks, trigger: Trigger) -> Sequence[Tasks]:
    state = follow(tasks.state, trigger)
    if state is None or not isinstance(tasks.status, Active):
        return ()
    return (_with(tasks, _active(tasks.status, state, tasks.status.sub_state)),)


def _refused(tasks: Tasks, seen: RefusedSeen) -> Sequence[Tasks]:
    if not intended(tasks):
        return ()
    return (_with(tasks, Waiting(tasks.state, sub_state=seen.reason), attempt=_unstarted(tasks)),)


def _ended(job: Job, tasks: Tasks, seen: EndedSeen) -> Sequence[Tasks]:
    cause = tasks.cause or seen.cause
    if seen.sub_state == NODE_REBOOTED and job.template.rerunnable and cause is None:
        return _requeued(tasks)
    success = seen.outcome == _SUCCESS and cause is None
    state = follow(tasks.state, Trigger.SUCCEED if success else Trigger.FAIL)
    if state is None:
        return ()
    return (_with(tasks, _end_status(tasks.status, seen, state, cause), cause=cause),)


def _requeued(tasks: Tasks) -> Sequence[Tasks]:
    """A job that says it may be run again comes back after a reboot."""
    state = follow(tasks.state, Trigger.REQUEUE)
    if state is not None:
        return (_with(tasks, Waiting(state, sub_state=NODE_REBOOTED)),)
    return (_with(tasks, Waiting(tasks.state), attempt=_unstarted(tasks)),)


_SUCCESS = Exited(0)


def _end_status(before: Status, seen: EndedSeen, state: JobState, cause: str | None) -> Ended:
    dispatched = before.dispatch_time if isinstance(before, Active | Undetermined) else None
    machines = before.machines if isinstance(before, Active) else ()
    if isinstance(seen.outcome, NotStarted):
        # A job whose command was never executed did not start, though its child was seen for a moment.
        dispatched, machines = None, ()
    return Ended(
        state,
        seen.outcome,
        _finish_time(dispatched, seen),
        native_id=seen.native_id or getattr(before, "native_id", None),
        dispatch_time=dispatched,
        wallclock_time=None if dispatched is None else seen.wallclock_time,
        machines=machines,
        usage=seen.usage,
        sub_state=_end_sub_state(seen, cause),
        annotation=seen.annotation,
    )


def _finish_time(dispatched: float | None, seen: EndedSeen) -> float:
    """The end by the clock of the start: a wall clock set back must not show an end before its start."""
    if dispatched is None:
        return seen.at
    if seen.wallclock_time is not None:
        return dispatched + seen.wallclock_time
    return max(dispatched, seen.at)


def _end_sub_state(seen: EndedSeen, cause: str | None) -> str | None:
    return seen.sub_state or cause or _of_outcome(seen.outcome)


def _of_outcome(outcome: Outcome) -> str | None:
    match outcome:
        case Exited():
            return None
        case Signalled():
            return "signalled"
        case NotStarted():
            return "start-failed"
        case Unknown():
            return "exit-status-unknown"
