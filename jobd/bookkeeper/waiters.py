"""Who waits for what. A waiter is told at the commit that satisfies it, or that makes it impossible."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import anyio

from jobd.bookkeeper.picture import Change
from jobd.bookkeeper.transitions import STARTING
from jobd.model.errors import InvalidArgument, InvalidState
from jobd.model.ids import JobId
from jobd.model.job import Job, Tasks
from jobd.model.states import REACHABLE, JobState
from jobd.model.status import Active, Ended, NotStarted

Goal = Callable[[Tasks], bool | None]
"""True: it is so; False: not yet; None: it can't come any more."""


def terminated(tasks: Tasks) -> bool:
    """DONE or FAILED (DRMAA2 waitTerminated)."""
    return tasks.state.final


def started(tasks: Tasks) -> bool | None:
    """In DRMAA2's Started group or past it: true once any attempt came to its exec, None if it ended without."""
    status = tasks.status
    if isinstance(status, Active):
        return status.sub_state != STARTING
    if isinstance(status, Ended):
        return None if isinstance(status.outcome, NotStarted) else True
    return tasks.state in (JobState.REQUEUED, JobState.REQUEUED_HELD)


def in_state(wanted: JobState) -> Goal:
    """Exactly that state."""

    def reached(tasks: Tasks) -> bool | None:
        if tasks.state is wanted:
            return True
        return False if wanted in REACHABLE[tasks.state] else None

    return reached


def parse_goal(text: str) -> Goal:
    """The goal for ``terminated``, ``started`` or the name of a state.

    Raises:
        InvalidArgument: none of these.
    """
    if text == "terminated":
        return terminated
    if text == "started":
        return started
    try:
        return in_state(JobState[text.upper()])
    except KeyError:
        names = ", ".join(state.name for state in JobState)
        raise InvalidArgument(f"can't wait for {text!r}", hint=f"say terminated, started or one of {names}") from None


class Waiter:
    """A wait for several jobs: for all of them, or for any. ``reached`` holds those that did, with how they stood."""

    def __init__(self, ids: Iterable[JobId], goal: Goal, *, any_of: bool) -> None:
        self.pending = set(ids)
        self.goal = goal
        self.any_of = any_of
        self.reached: dict[JobId, tuple[Job, Tasks]] = {}
        self.impossible: list[JobId] = []
        self._settled = anyio.Event()
        self.check_settled()

    def notice(self, job: Job, id: JobId, tasks: Tasks) -> None:
        """Look at where a job that it waits for stands now."""
        if id not in self.pending:
            return
        verdict = self.goal(tasks)
        if verdict is None:
            self.impossible.append(id)
        elif verdict:
            self.reached[id] = (job, tasks)
        else:
            return
        self.pending.discard(id)
        self.check_settled()

    def check_settled(self) -> None:
        """Wake whoever waits, if the answer is known."""
        failed = self.impossible and (not self.any_of or not self.pending)
        if failed or not self.pending or (self.any_of and self.reached):
            self._settled.set()

    @property
    def settled(self) -> bool:
        """Whether the answer is known."""
        return self._settled.is_set()

    async def result(self, timeout: float | None = None) -> dict[JobId, tuple[Job, Tasks]]:
        """What was reached. ``timeout`` is in seconds, None for ever; 0 asks whether it is so already.

        Raises:
            TimeoutError: it did not come in time.
            InvalidState: it can't come any more.
        """
        # Where it is so already nothing is awaited: with no time left that would be a Timeout.
        if not self.settled:
            with anyio.fail_after(timeout):
                await self._settled.wait()
        if self.impossible and not (self.any_of and self.reached):
            names = ", ".join(map(str, self.impossible))
            raise InvalidState(f"job {names} can't come to that any more", jobs=map(str, self.impossible))
        return self.reached


class Waiters:
    """All waiters, found by job, so that an event costs what its own waiters cost."""

    def __init__(self) -> None:
        self._by_job: dict[int, set[Waiter]] = {}

    def __len__(self) -> int:
        return len({waiter for waiters in self._by_job.values() for waiter in waiters})

    def add(self, waiter: Waiter) -> None:
        """Register for every job that the waiter still waits for."""
        for id in waiter.pending:
            self._by_job.setdefault(id.job, set()).add(waiter)

    def remove(self, waiter: Waiter, ids: Iterable[JobId]) -> None:
        """Forget a waiter, whatever became of it."""
        for id in ids:
            waiters = self._by_job.get(id.job)
            if waiters is not None:
                waiters.discard(waiter)
                if not waiters:
                    del self._by_job[id.job]

    def notice(self, change: Change) -> None:
        """Tell those who wait for a job that it changed."""
        waiters = self._by_job.get(change.after.job)
        if not waiters:
            return
        after = change.after
        for waiter in list(waiters):
            if after.first == after.last:
                waiter.notice(change.job, after.id, after)
                continue
            for id in [id for id in waiter.pending if id.job == after.job and after.first <= id.task <= after.last]:
                waiter.notice(change.job, id, after)
