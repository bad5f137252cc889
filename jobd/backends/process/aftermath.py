"""What dead keepers leave: their journals are replayed, their jobs followed, and what is lost is said to be."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from jobd.backends.base import Observation
from jobd.backends.process import recovery
from jobd.backends.process.followers import Follower
from jobd.backends.process.recovery import Found, Past
from jobd.backends.process.reports import Reports
from jobd.model.ids import JobId
from jobd.model.job import Job, Tasks
from jobd.model.tokens import make_token

_log = structlog.get_logger(__name__)

Mine = tuple[Job, Tasks]


class Aftermath:
    """Sorts out jobs whose keeper can't be asked any more.

    Args:
        folder: where the keepers' folders are.
        active: the backend's jobs that the store has as active now.
        waiting: whether a start has not left for its keeper yet; such a one is nobody's loss.
    """

    def __init__(
        self,
        folder: Path,
        store_id: str,
        machine: str,
        reports: Reports,
        active: Callable[[], Iterable[Mine]],
        waiting: Callable[[JobId], bool],
    ) -> None:
        self._folder = folder
        self._store_id = store_id
        self._machine = machine
        self._reports = reports
        self._active = active
        self._waiting = waiting
        self._tasks: TaskGroup | None = None
        self._graves: set[str] = set()
        self.followers: dict[str, Follower] = {}

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Own the followers until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            task_status.started()
            await anyio.sleep_forever()

    async def bury(self, names: Collection[str], expected: Collection[str] | None = None) -> None:
        """Tell what the journals of dead keepers say, all of it before the first pid is looked at; follow what runs.

        A journal stays as long as a job is followed by it: the next daemon will need it. ``expected`` are the tokens of
        the jobs that they were given; None where only the store knows.
        """
        found = {name: await anyio.to_thread.run_sync(recovery.read_past, self._folder / name) for name in names}
        mine = {self.token(tasks) for _, tasks in self._active()}
        for name, (_, pasts) in found.items():
            told = [recovery.told(past, name, self._machine) for token, past in pasts.items() if token in mine]
            await self._reports.tell([one for seen in told for one in seen])
        for name, (boot, pasts) in found.items():
            await self._decide(self._of(name, expected), pasts, boot)
            self._graves.add(name)
            await self._remove_unused(name)

    async def unknown_to(self, name: str, expected: Collection[str] | None, known: Collection[str]) -> None:
        """Jobs that a living keeper was given, and of which it knows nothing now that it was asked."""
        mine = self._of(name, expected)
        await self._decide([(job, tasks) for job, tasks in mine if self.token(tasks) not in known], {}, None)

    async def without_keeper(self, names: Collection[str]) -> None:
        """Jobs whose keeper is none of those that there are."""
        left = [mine for mine in self._all() if granted_to(mine[1]) not in names]
        await self._decide(left, {}, None)

    async def _decide(self, mine: Iterable[Mine], pasts: dict[str, Past], journal_boot: str | None) -> None:
        boot = await anyio.to_thread.run_sync(recovery.this_boot)
        seen: list[Observation] = []
        for job, tasks in mine:
            past = pasts.get(self.token(tasks))
            rebooted = recovery.rebooted_since(journal_boot, tasks, boot)
            find = partial(recovery.find_leader, past, self.token(tasks), same_boot=journal_boot in (None, boot.id))
            leader = await anyio.to_thread.run_sync(find)
            result = recovery.unfinished(past, tasks, rebooted=rebooted, now=time.time(), leader=leader)
            if isinstance(result, Found):
                result = self._follow(job, tasks, result)
            seen += [] if result is None else [result]
        await self._reports.tell(seen)

    def _follow(self, job: Job, tasks: Tasks, found: Found) -> Observation | None:
        """Follow a job; what is to be said of it where it ended before that."""
        token, keeper = self.token(tasks), granted_to(tasks) or ""
        follower = Follower(job, found, token, keeper, self._folder / keeper, self._machine, self._reports)
        if not follower.attach():
            why = "Its keeper died, and it ended before it could be followed."
            return recovery.lost(tasks, time.time(), why, found.cause)
        _log.info("a job is followed without its keeper", job_id=str(tasks.id), pid=follower.pid)
        self.followers[token] = follower
        assert self._tasks is not None
        self._tasks.start_soon(self._until_end, token, follower)
        return None

    async def _until_end(self, token: str, follower: Follower) -> None:
        try:
            await follower.run()
        finally:
            del self.followers[token]
        if follower.keeper in self._graves:
            await self._remove_unused(follower.keeper)

    async def _remove_unused(self, name: str) -> None:
        if any(follower.keeper == name for follower in self.followers.values()):
            return
        self._graves.discard(name)
        await anyio.to_thread.run_sync(partial(shutil.rmtree, self._folder / name, ignore_errors=True))

    def _all(self) -> list[Mine]:
        """The jobs that some keeper has or had, and that are not followed."""
        return [
            (job, tasks)
            for job, tasks in self._active()
            if granted_to(tasks) is not None and not self._waiting(tasks.id) and self.token(tasks) not in self.followers
        ]

    def _of(self, name: str, expected: Collection[str] | None) -> list[Mine]:
        mine = [one for one in self._all() if granted_to(one[1]) == name]
        return mine if expected is None else [one for one in mine if self.token(one[1]) in expected]

    def token(self, tasks: Tasks) -> str:
        """The token of the attempt that tasks are at."""
        return make_token(self._store_id, tasks.id, tasks.attempt)


def granted_to(tasks: Tasks) -> str | None:
    """The keeper that a job's start was given to; None where it was given to nobody."""
    name: str | None = getattr(tasks.status, "granted_to", None)
    return name
