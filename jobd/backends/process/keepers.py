"""All keepers of a state folder: the one that gets new jobs, and older ones that are served to their last job."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import structlog
from anyio.abc import TaskGroup

from jobd.backends.base import Observation, Observer, RefusedSeen
from jobd.backends.process import recovery
from jobd.backends.process.followers import Follower
from jobd.backends.process.launch import launch
from jobd.backends.process.link import Link
from jobd.backends.process.recovery import Found, Past
from jobd.model.tokens import make_token, parse_token
from jobd.model.errors import DrmCommunication
from jobd.model.job import Job, Tasks
from jobd.model.status import Active

_log = structlog.get_logger(__name__)

_ANSWER_WITHIN = 3.0
_ASK_AGAIN = 2.0

Mine = tuple[Job, Tasks]


class Keepers:
    """Starts keepers, connects to them, and sorts out what dead ones left.

    Args:
        folder: where the keepers' folders are.
        generation: this daemon's, which names its keepers, too.
        active: the jobs that the store has as active now.
    """

    def __init__(
        self,
        folder: Path,
        store_id: str,
        generation: int,
        machine: str,
        observer: Observer,
        active: Callable[[], Iterable[Mine]],
    ) -> None:
        self._folder = folder
        self._store_id = store_id
        self._generation = generation
        self._machine = machine
        self._observer = observer
        self._active = active
        self._count = 0
        self._tasks: TaskGroup | None = None
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._starting = anyio.Lock()
        self.links: dict[str, Link] = {}
        self.unanswering: set[str] = set()
        self.followers: dict[str, Follower] = {}
        self.current = self._next_name()
        self.capacity: int | None = None

    def _next_name(self) -> str:
        self._count += 1
        return f"{self._generation}-{self._count}"

    async def run(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Own the tasks of all links and followers until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            task_status.started()
            await anyio.sleep_forever()

    @property
    def pids(self) -> set[int]:
        """Children of the daemon whose status is looked after here."""
        return {process.pid for process in self._processes.values()} | {
            follower.found.identity.pid for follower in self.followers.values()
        }

    async def recover(self) -> None:
        """Ask every keeper, and replay the journals of dead ones, before anything is started."""
        names = sorted(os.listdir(self._folder)) if self._folder.is_dir() else []
        for name in names:
            await self._find_again(name)
        await self._sort_out({*names})

    async def _find_again(self, name: str) -> None:
        folder = self._folder / name
        if await anyio.to_thread.run_sync(recovery.is_dead, folder):
            await self._bury(name)
            return
        with anyio.move_on_after(_ANSWER_WITHIN):
            if await self._connect(name):
                return
        self._abandon(name)

    def _abandon(self, name: str) -> None:
        """A keeper that is stopped or busy holds up only its own jobs; it is asked on, in the background."""
        self.unanswering.add(name)
        assert self._tasks is not None
        _log.warning("a keeper does not answer", keeper=name)
        self._tasks.start_soon(self._ask_on, name)

    async def _ask_on(self, name: str) -> None:
        while name in self.unanswering:
            await anyio.sleep(_ASK_AGAIN)
            if await anyio.to_thread.run_sync(recovery.is_dead, self._folder / name):
                self.unanswering.discard(name)
                await self._bury(name)
            else:
                with anyio.move_on_after(_ANSWER_WITHIN):
                    if await self._connect(name):
                        self.unanswering.discard(name)
        await self._sort_out({name})

    async def _connect(self, name: str) -> bool:
        """Connect to a keeper and hear all that it knows; False where nobody listens."""
        link = Link(name, self._folder / name, self._generation, self._machine, self._observer)
        assert self._tasks is not None
        try:
            await link.connect()
        except OSError:
            return False
        try:
            await self._tasks.start(partial(self._serve, link))
            await link.synced.wait()
        except BaseException:
            link.close()
            raise
        if not link.alive:
            return False
        self.links[name] = link
        self.current = max(self.links, key=_order)
        await self.share_capacity()
        return True

    async def _serve(self, link: Link, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        await link.run(task_status=task_status)
        if self.links.get(link.name) is link:
            await self._died(link)

    async def _died(self, link: Link) -> None:
        """A keeper is gone: its jobs run on, and new ones get a new keeper."""
        del self.links[link.name]
        if self.current == link.name:
            self.current = self._next_name()
        process = self._processes.pop(link.name, None)
        if process is not None:
            await anyio.to_thread.run_sync(process.wait)
        await self._bury(link.name)
        await self._sort_out({link.name})

    async def _bury(self, name: str) -> None:
        """Tell what a dead keeper's journal says, follow what runs, and remove its folder once all is committed."""
        folder = self._folder / name
        boot, pasts = await anyio.to_thread.run_sync(recovery.read_past, folder)
        seen = [one for past in pasts.values() for one in recovery.told(past, name, self._machine)]
        await self._observer.observe(seen)
        same_boot = boot in (None, await anyio.to_thread.run_sync(recovery.boot_id))
        for _, tasks in self._of(name):
            await self._unfinished(tasks, pasts.get(self._token(tasks)), same_boot=same_boot)
        await anyio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))

    async def _unfinished(self, tasks: Tasks, past: Past | None, *, same_boot: bool) -> None:
        def find() -> int | None:
            if past is not None and past.identity is not None:
                return past.identity.pid if recovery.still_runs(past.identity) else None
            return recovery.find_by_token(self._token(tasks))

        running = isinstance(tasks.status, Active)
        decide = partial(
            recovery.unfinished,
            past,
            tasks.id,
            tasks.attempt,
            was_running=running,
            same_boot=same_boot,
            now=time.time(),
            find=find,
        )
        result = await anyio.to_thread.run_sync(decide)
        if isinstance(result, Found):
            await self._follow(result)
        elif result is not None:
            await self._observer.observe([result])

    async def _follow(self, found: Found) -> None:
        token = found.token or make_token(self._store_id, found.id, found.attempt)
        follower = Follower(found, self._machine, self._observer)
        assert self._tasks is not None
        self.followers[token] = follower
        if follower.attach():
            self._tasks.start_soon(self._until_end, token, follower)
            return
        del self.followers[token]
        why = "Its keeper died, and it ended before it could be followed."
        await self._observer.observe([recovery.lost(found.id, found.attempt, time.time(), None, why)])

    async def _until_end(self, token: str, follower: Follower) -> None:
        try:
            await follower.run()
        finally:
            self.followers.pop(token, None)
        await self.share_capacity()

    async def _sort_out(self, names: set[str]) -> None:
        """Jobs whose keeper was asked but knows nothing of them: not started, or lost with it."""
        seen: list[Observation] = []
        for _, tasks in self._active():
            keeper = granted_to(tasks)
            if keeper is None or keeper in self.unanswering or (keeper not in names and keeper in self.links):
                continue
            token = self._token(tasks)
            link = self.links.get(keeper)
            if token in self.followers or (link is not None and token in link.known):
                continue
            if keeper == self.current and link is None:
                continue
            seen.append(self._unknown(tasks))
        if seen:
            await self._observer.observe(seen)
        await self.share_capacity()

    def _unknown(self, tasks: Tasks) -> Observation:
        if not isinstance(tasks.status, Active):
            return RefusedSeen(tasks.id, tasks.attempt)
        why = "Its keeper is gone, and with it what it knew."
        return recovery.lost(tasks.id, tasks.attempt, time.time(), None, why)

    def _of(self, keeper: str) -> list[Mine]:
        return [(job, tasks) for job, tasks in self._active() if granted_to(tasks) == keeper]

    def _token(self, tasks: Tasks) -> str:
        return make_token(self._store_id, tasks.id, tasks.attempt)

    async def grant(self, name: str, envs: dict[str, Any], specs: list[dict[str, Any]]) -> None:
        """Give starts to the keeper that they were intended for; where it is gone, they come back."""
        try:
            link = await self._ready(name)
            await link.grant(envs, specs)
        except (DrmCommunication, OSError) as error:
            _log.warning("starts come back: their keeper can't be had", keeper=name, error=str(error))
            named = [parse_token(spec["t"]) for spec in specs]
            await self._observer.observe([RefusedSeen(*one, _reason(error)) for one in named if one])

    async def _ready(self, name: str) -> Link:
        async with self._starting:
            if name in self.links:
                return self.links[name]
            if name != self.current:
                raise DrmCommunication(f"keeper {name} is gone")
            self._processes[name] = await anyio.to_thread.run_sync(launch, self._folder / name)
            if not await self._connect(name):
                raise DrmCommunication(f"keeper {name} does not answer")
            return self.links[name]

    async def share_capacity(self) -> None:
        """Tell each keeper how many slots its starts may fill: all but those that are filled elsewhere."""
        for name, link in list(self.links.items()):
            used = sum(job.slots for job, tasks in self._active() if isinstance(tasks.status, Active) and granted_to(tasks) != name)
            try:
                await link.send(op="capacity", slots=None if self.capacity is None else max(0, self.capacity - used))
            except DrmCommunication:
                continue

    def link_of(self, token: str) -> Link | None:
        """The keeper that has a job."""
        return next((link for link in self.links.values() if token in link.known), None)

    def emptied(self, token: str) -> anyio.Event | None:
        """The event of an ended job's process group becoming empty; None where it is."""
        return next((link.lingering[token] for link in self.links.values() if token in link.lingering), None)

    async def revoke(self, tokens: Sequence[str]) -> set[str]:
        """Take grants back from whichever keeper has them."""
        revoked: set[str] = set()
        for link in list(self.links.values()):
            mine = [token for token in tokens if token in link.known]
            if mine:
                revoked |= await link.revoke(mine)
        return revoked


def granted_to(tasks: Tasks) -> str | None:
    """The keeper that a job's start was given to."""
    name: str | None = getattr(tasks.status, "granted_to", None)
    return name


def _order(name: str) -> tuple[int, int]:
    generation, _, count = name.partition("-")
    return int(generation), int(count)


def _reason(error: Exception) -> str:
    return f"no keeper could be started: {error}"

