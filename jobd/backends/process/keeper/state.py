"""What the keeper holds: its jobs, its queue of grants, its slots, and what is to be said."""

from __future__ import annotations

import heapq
import time
from collections import deque

from jobd.backends.process.keeper import records
from jobd.backends.process.keeper.job import GRANTED, Job
from jobd.backends.process.keeper.journal import COMPACT_ABOVE, Journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

HOLD_BACK = 0.005
_RETRY = 1.0


class State:
    """Jobs by token, leaders by pid, grants in order; slots in use and how many there are."""

    def __init__(self, journal: Journal, pid: int) -> None:
        self.pid = pid
        self.journal = journal
        self.jobs: dict[bytes, Job] = {}
        self.leaders: dict[int, Job] = {}
        self.queue: deque[Job] = deque()
        self.ending: dict[bytes, Job] = {}
        self.envs: dict[str, list[bytes]] = {}
        self.capacity: int | None = None
        self.used = 0
        self.forking = 0
        self.unwritten: list[Job] = []
        self.outgoing: list[bytes] = []
        self.connected = False
        self._timers: list[tuple[float, int, Callable[[float], None]]] = []
        self._count = 0

    def fits(self, job: Job) -> bool:
        """Whether a job's slots are free now."""
        return self.capacity is None or self.used + job.slots <= self.capacity

    def say(self, record: bytes) -> None:
        """Tell the daemon, if there is one; a new one is told from the jobs' records."""
        if self.connected:
            self.outgoing.append(record)

    def note(self, job: Job, record: bytes) -> None:
        """Journal a record, keep it for a new daemon, and say it. On a full disk it is kept, and written later."""
        job.records.append(record)
        try:
            self.journal.append(record)
        except OSError:
            if not self.unwritten:
                self.at(time.monotonic() + _RETRY, self._write_again)
            if not job.unwritten:
                job.unwritten = True
                self.unwritten.append(job)
        self.say(record)

    def _write_again(self, now: float) -> None:
        """There may be room again: each job's records whole, since a repeat of one says nothing new."""
        while self.unwritten:
            try:
                self.journal.append(b"".join(self.unwritten[-1].records))
            except OSError:
                self.at(now + _RETRY, self._write_again)
                return
            self.unwritten.pop().unwritten = False

    def forget(self, job: Job) -> None:
        """A job that nobody will ask for again."""
        if self.jobs.pop(job.token, None) is None:
            return
        if self.journal.size > COMPACT_ABOVE and not self.forking and not self.unwritten:
            self.journal.compact([record for kept in self.jobs.values() for record in kept.records])

    def drop_granted(self, job: Job, record: bytes) -> None:
        """A grant that is not started: taken back, or refused. The record is journalled before anybody is told."""
        self.journal.append(record)
        self.jobs.pop(job.token, None)

    def drop_unused_environments(self) -> None:
        """Environments are needed until the last grant that names them has started."""
        if not self.queue:
            self.envs.clear()

    def at(self, when: float, act: Callable[[float], None]) -> None:
        """Call ``act(now)`` at a time of CLOCK_MONOTONIC."""
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, act))

    def run_timers(self, now: float) -> None:
        """Call what is due."""
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2](now)

    def next_timer(self) -> float | None:
        """When something is due, None if nothing is."""
        return self._timers[0][0] if self._timers else None

    @property
    def idle(self) -> bool:
        """Whether there is nothing that would need a keeper."""
        return not self.jobs

    def replay(self) -> list[bytes]:
        """What a new daemon is told: every job's records, oldest first."""
        told = [record for job in self.jobs.values() if job.phase != GRANTED for record in job.records]
        told += [records.simple(b"granted", job.token) for job in self.jobs.values() if job.phase == GRANTED]
        return [*told, records.SYNCED]
