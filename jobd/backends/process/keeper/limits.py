"""Time limits and deadlines: the keeper's, so that they hold while no daemon is there."""

from __future__ import annotations

import time

from jobd.backends.process.keeper import ending
from jobd.backends.process.keeper.job import Job
from jobd.backends.process.keeper.state import State

_LOOK_AGAIN = 60.0
_GRACE = 10.0


def arm(state: State, job: Job) -> None:
    """Set a started job's timers."""
    assert job.spec is not None
    limit, deadline = job.spec.get("time_limit"), job.spec.get("deadline")
    grace = job.spec.get("grace", _GRACE)
    if limit is not None:
        _TimeLimit(state, job, limit, grace).arm(time.monotonic())
    if deadline is not None:
        _Deadline(state, job, deadline, grace).look(time.monotonic())


class _TimeLimit:
    """Counts running time by CLOCK_MONOTONIC: neither a stop nor a laptop's sleep counts."""

    def __init__(self, state: State, job: Job, limit: float, grace: float) -> None:
        self._state = state
        self._job = job
        self._limit = limit
        self._grace = grace
        job.on_continue = self.arm

    def arm(self, now: float) -> None:
        """Look when the rest would be used up; a stopped job is looked at when it goes on."""
        if not self._job.stopped:
            self._state.at(now + self._limit - self._job.running_time(now), self._look)

    def _look(self, now: float) -> None:
        job = self._job
        if not job.active or job.stopped or job.cause == "time-limit":
            return
        if job.running_time(now) < self._limit - 0.001:
            self.arm(now)
        else:
            ending.begin(self._state, job, "time-limit", self._grace, now)


class _Deadline:
    """A time of the wall clock, which may be set: so it is looked at again."""

    def __init__(self, state: State, job: Job, deadline: float, grace: float) -> None:
        self._state = state
        self._job = job
        self._deadline = deadline
        self._grace = grace

    def look(self, now: float) -> None:
        """End the job if it is past, else look again."""
        left = self._deadline - time.time()
        if not self._job.active:
            return
        if left <= 0:
            ending.begin(self._state, self._job, "deadline", self._grace, now)
        else:
            self._state.at(now + min(left, _LOOK_AGAIN), self.look)
