"""Ending a job's whole tree: TERM, then CONT, since a stopped process takes no TERM; after the grace KILL."""

from __future__ import annotations

import signal

from jobd.backends.process.keeper import records
from jobd.backends.process.keeper.job import ENDED, Job
from jobd.backends.process.keeper.state import State
from jobd.backends.process.keeper.tree import Process, send, tree

LEFT_ALONE = 2.0
LEFT_GRACE = 10.0
GIVE_UP = 10.0
_KILL_AGAIN = 0.1
_KILL_SELDOM = 1.0

TERMINATING = 0
KILLING = 1
GIVEN_UP = 2


class Ending:
    """An escalation under way: its stage, when the next begins, and the requests that wait for its result."""

    __slots__ = ("due", "killed", "requests", "stage")

    def __init__(self, due: float) -> None:
        self.stage = TERMINATING
        self.due = due
        self.killed = 0.0
        self.requests: list[int] = []

    def advance(self, now: float) -> bool:
        """Go to the stage that the clock asks for; whether it is time to kill (again)."""
        if now < self.due:
            return False
        if self.stage == TERMINATING:
            self.stage, self.killed = KILLING, now
        elif self.stage == KILLING and now - self.killed >= GIVE_UP:
            self.stage = GIVEN_UP
        self.due = now + (_KILL_AGAIN if self.stage == KILLING else _KILL_SELDOM)
        return True


def processes(state: State, job: Job) -> list[Process]:
    """What is there of a job."""
    return tree(job.pid, job.token, state.pid, state.leaders)


def begin(state: State, job: Job, cause: str | None, grace: float, now: float, request: int | None = None) -> None:
    """End a started job, or what an ended one left; a shorter grace than before counts."""
    if job.active and job.cause is None and cause is not None:
        job.cause = cause
        state.note(job, records.cause(job.token, cause))
    if job.ending is None:
        job.ending = Ending(now + grace)
        state.ending[job.token] = job
        _signal_all(state, job, signal.SIGTERM, signal.SIGCONT)
        _arm(state, job, job.ending)
    elif job.ending.stage == TERMINATING and now + grace < job.ending.due:
        job.ending.due = now + grace
        _arm(state, job, job.ending)
    if request is not None:
        job.ending.requests.append(request)
    settle(state, job)


def _arm(state: State, job: Job, under_way: Ending) -> None:
    """Take the next step when it is due, unless the tree is gone by then."""

    def step(now: float) -> None:
        if job.ending is not under_way or settle(state, job):
            return
        if under_way.advance(now):
            _signal_all(state, job, signal.SIGKILL)
            if under_way.stage == GIVEN_UP:
                _report_stuck(state, job, under_way)
            _arm(state, job, under_way)

    state.at(under_way.due, step)


def settle(state: State, job: Job) -> bool:
    """If nothing is left of an ended job: answer who waits for that, and forget it once its end is on record."""
    if job.phase != ENDED or processes(state, job):
        return False
    done(state, job)
    return True


def done(state: State, job: Job) -> None:
    """Nothing is left of an ended job."""
    if job.ending is not None:
        for request in job.ending.requests:
            state.say(records.answer(request, ok=True))
    job.ending = None
    state.ending.pop(job.token, None)
    job.settled = True
    if job.acked:
        state.forget(job)


def _report_stuck(state: State, job: Job, under_way: Ending) -> None:
    pids = [process.pid for process in processes(state, job)]
    for request in under_way.requests:
        state.say(records.answer(request, error="processes outlived SIGKILL", errno="EBUSY", pids=pids))
    under_way.requests.clear()


def _signal_all(state: State, job: Job, *numbers: int) -> None:
    found = processes(state, job)
    for number in numbers:
        for process in found:
            send(process, number, state.pid)
