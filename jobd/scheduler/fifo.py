"""First come, first served, by slots: the order of submission, and nobody overtakes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from jobd.model.ids import JobId
from jobd.model.job import Job, Tasks
from jobd.model.states import JobState
from jobd.model.status import Ended, Waiting
from jobd.scheduler.ahead import AheadEstimate

_ELIGIBLE = frozenset({JobState.QUEUED, JobState.REQUEUED})


class Scheduler:
    """What waits and what holds slots, kept up to date change by change.

    Args:
        slots: how many slots there are; a job takes ``job.slots`` of them from its grant to its end.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.paused: str | None = None
        self._queue: list[JobId] = []
        self._waiting: dict[JobId, int] = {}
        self._holding: dict[JobId, int] = {}
        self._lingering: dict[JobId, int] = {}
        self._used = 0
        self._estimate = AheadEstimate()

    def rebuild(self, active: Iterable[tuple[Job, Tasks]]) -> None:
        """Start over from the picture: at start, and after a commit that failed."""
        self._queue.clear()
        self._waiting.clear()
        self._holding.clear()
        self._used = sum(self._lingering.values())
        for job, tasks in active:
            self.update(job, None, tasks)

    def update(self, job: Job, before: Tasks | None, after: Tasks) -> None:
        """Take in one step of a job."""
        id = after.id
        status = after.status
        self._waiting.pop(id, None)
        if isinstance(status, Waiting) and status.granted_to is None:
            self._release(id)
            if status.state in _ELIGIBLE:
                self._waiting[id] = job.slots
                heapq.heappush(self._queue, id)
            return
        if isinstance(status, Ended):
            self._release(id)
            if status.wallclock_time is not None:
                self._estimate.ended(status.wallclock_time)
            return
        if id not in self._holding:
            self._holding[id] = job.slots
            self._used += job.slots

    def linger(self, id: JobId, slots: int) -> None:
        """An ended job whose process group is not empty yet holds its slots on."""
        if id not in self._lingering:
            self._lingering[id] = slots
            self._used += slots

    def freed(self, id: JobId) -> None:
        """Nothing of an ended job's process group is left."""
        self._used -= self._lingering.pop(id, 0)

    def starts(self) -> list[JobId]:
        """The jobs to start now, in order: those that fit, and those to grant ahead of the slots they will get."""
        if self.paused:
            return []
        limit = self.slots + self._ahead()
        chosen: dict[JobId, None] = {}
        used = self._used
        while self._queue:
            id = self._queue[0]
            slots = self._waiting.get(id)
            if slots is not None and id not in chosen:
                if used + slots > limit:
                    break
                chosen[id] = None
                used += slots
            # An id that was held and released, or granted and taken back, can stand in the heap more than once.
            heapq.heappop(self._queue)
        return list(chosen)

    def _ahead(self) -> int:
        """Slots beyond the free ones; refilled at half, so that one transaction and one message carry many starts."""
        ahead = self._estimate.slots_ahead(self.slots)
        granted = max(0, self._used - self.slots)
        return ahead if granted <= ahead // 2 else granted

    def _release(self, id: JobId) -> None:
        self._used -= self._holding.pop(id, 0)

    @property
    def used(self) -> int:
        """Slots that are held or promised."""
        return self._used

    @property
    def waiting(self) -> int:
        """How many jobs wait for slots."""
        return len(self._waiting)

    def explain(self, id: JobId) -> str:
        """Why a waiting job is not started, in a sentence."""
        if self.paused:
            return f"No new work is started: {self.paused}."
        slots = self._waiting.get(id)
        if slots is None:
            return "It is granted and starts as soon as a slot falls free."
        ahead = sum(1 for other in self._waiting if other < id)
        place = f"; {ahead} job{'s' if ahead != 1 else ''} before it" if ahead else "; it is next"
        return f"It needs {slots} of {self.slots} slots, {max(0, self.slots - self._used)} free{place}."
