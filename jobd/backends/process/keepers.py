"""All keepers of a state folder: the one that gets new jobs, and older ones that are served to their last job."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import anyio
import anyio.lowlevel
import structlog
from anyio.abc import TaskGroup, TaskStatus
from anyio.lowlevel import checkpoint

from jobd.backends.base import EndedSeen, FreedSeen, Observation
from jobd.backends.process.aftermath import Aftermath, Mine, granted_to
from jobd.backends.process.followers import GRACE
from jobd.backends.process.keeper.tree import look
from jobd.backends.process.launch import launch, wait
from jobd.backends.process.link import PROTOCOL, KeeperGone, KeptJob, Link
from jobd.backends.process.recovery import is_dead
from jobd.backends.process.reports import Reports
from jobd.model.errors import DrmCommunication, JobdError
from jobd.model.status import Active

_log = structlog.get_logger(__name__)

_ANSWER_WITHIN = 3.0
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 2.0
_NAME = re.compile(r"([0-9]+)-([0-9]+)\Z", re.ASCII)


class Keepers:
    """Starts keepers, and is connected to each for as long as it lives.

    Args:
        folder: where the keepers' folders are.
        generation: this daemon's, which names its keepers, too.
        active: the backend's jobs that the store has as active now.
        aftermath: sorts out what dead ones leave.
    """

    def __init__(
        self,
        folder: Path,
        generation: int,
        machine: str,
        reports: Reports,
        active: Callable[[], Iterable[Mine]],
        aftermath: Aftermath,
    ) -> None:
        self._folder = folder
        self._generation = generation
        self._machine = machine
        self._reports = reports
        self._active = active
        self._aftermath = aftermath
        self._count = 0
        self._burials = 0
        self._tasks: TaskGroup | None = None
        self._processes: dict[str, int] = {}
        self._starting = anyio.Lock()
        self._capacity: int | None = None
        self.links: dict[str, Link] = {}
        self.unanswering: set[str] = set()
        self.current = self._next_name()
        self.buried: Callable[[], None] = lambda: None

    def _next_name(self) -> str:
        self._count += 1
        return f"{self._generation}-{self._count}"

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Own the tasks of all connections until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            task_status.started()
            await anyio.sleep_forever()

    @property
    def pids(self) -> set[int]:
        """Keepers that are children of the daemon: their status is looked after here."""
        return set(self._processes.values())

    def quiet(self) -> bool:
        """Whether no keeper has just died. Until its burial a child that fell to the daemon may be a job's leader."""
        return not self._burials and not any((seen := look(pid)) and seen.state == "Z" for pid in self.pids)

    async def recover(self) -> None:
        """Replay the journals of dead keepers and ask the living ones, before anything is started."""
        names = sorted(name for name in _listed(self._folder) if _NAME.match(name))
        dead = [name for name in names if await anyio.to_thread.run_sync(is_dead, self._folder / name)]
        await self._aftermath.bury(dead)
        async with anyio.create_task_group() as tasks:
            for name in set(names) - set(dead):
                tasks.start_soon(self._find_again, name)
        usable = [name for name, link in self.links.items() if link.alive and link.protocol == PROTOCOL]
        self.current = max(usable, key=_order, default=self.current)
        for name, link in self.links.items():
            if name != self.current:
                link.retire()
        await self._aftermath.without_keeper(names)
        await self._share_capacity()

    async def _find_again(self, name: str) -> None:
        """One that is stopped or busy holds up only its own jobs: it is listened for in the background."""
        link = self._connected_to(name)
        with anyio.move_on_after(_ANSWER_WITHIN):
            await link.settled.wait()
            return
        self.unanswering.add(name)
        _log.warning("a keeper does not answer", keeper=name)

    def _connected_to(self, name: str) -> Link:
        link = self.links[name] = Link(name, self._folder / name, self._generation, self._machine, self._tell)
        assert self._tasks is not None
        self._tasks.start_soon(self._serve, link)
        return link

    async def _serve(self, link: Link) -> None:
        """Connect, again where the keeper cut us off, until it is dead or is let go of."""
        pause = _FIRST_PAUSE
        while not await anyio.to_thread.run_sync(is_dead, link.folder):
            if await self._one_connection(link):
                pause = _FIRST_PAUSE
                if link.retired and not link.known:
                    break
            await anyio.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)
        else:
            await self._died(link)
        self.links.pop(link.name, None)
        self.unanswering.discard(link.name)
        link.known.clear()
        link.settled.set()

    async def _one_connection(self, link: Link) -> bool:
        """Serve one connection until it is lost; whether the keeper told what it knows."""
        try:
            await link.connect()
        except (OSError, KeeperGone):
            return False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run)
            await link.synced.wait()
            synced = link.alive
            if synced:
                await self._adopt(link, tasks)
        return synced

    async def _adopt(self, link: Link, tasks: TaskGroup) -> None:
        """A keeper told all it knows: what it does not know is sorted out, and what was being ended is ended."""
        self.unanswering.discard(link.name)
        await self._aftermath.unknown_to(link.name, link.expected, frozenset(link.known))
        await self._share_capacity()
        for _, one in list(self._active()):
            token = self._aftermath.token(one)
            if one.cause is not None and isinstance(one.status, Active) and token in link.known:
                tasks.start_soon(self._end_again, link, token, one.cause)
        if link.alive:
            link.settled.set()
        if link.retired:
            link.retire()

    async def _end_again(self, link: Link, token: str, cause: str) -> None:
        """An end whose cause was committed, and whose signals may not have been sent before the last daemon died."""
        try:
            await KeptJob(link, token).terminate(cause, GRACE)
        except JobdError as error:
            _log.warning("a job could not be ended", token=token, error=error.message)

    async def _died(self, link: Link) -> None:
        """A keeper is dead: its jobs run on, and new ones get a new keeper."""
        _log.warning("a keeper died", keeper=link.name, pid=link.pid)
        if self.current == link.name:
            self.current = self._next_name()
        self._burials += 1
        if link.name in self._processes:
            await anyio.to_thread.run_sync(wait, self._processes.pop(link.name))
        await self._aftermath.bury([link.name], link.expected)
        self._burials -= 1
        self.buried()
        await self._share_capacity()

    async def ready(self, name: str) -> Link:
        """The keeper of a name, connected; it is started if it is the one for new jobs and has not been yet.

        Raises:
            KeeperGone: it is dead.
            DrmCommunication: it can't be started, or does not answer.
        """
        async with self._starting:
            link = self.links.get(name)
            if link is None:
                if name != self.current:
                    raise KeeperGone(f"keeper {name} is gone")
                link = await self._start(name)
        with anyio.move_on_after(_ANSWER_WITHIN):
            while not link.settled.is_set():
                await link.settled.wait()
        if link.settled.is_set() and link.alive:
            return link
        if self.links.get(name) is link:
            raise DrmCommunication(f"keeper {name} does not answer")
        raise KeeperGone(f"keeper {name} is gone")

    async def _start(self, name: str) -> Link:
        try:
            self._processes[name] = await anyio.to_thread.run_sync(launch, self._folder / name)
        except (OSError, JobdError) as error:
            self.current = self._next_name()
            raise DrmCommunication(f"no keeper could be started: {error}") from error
        await checkpoint()  # a daemon that stops meanwhile starts nothing more; the keeper ends by itself
        # A thread is not interrupted: the daemon may have begun to stop meanwhile.
        await anyio.lowlevel.checkpoint_if_cancelled()
        link = self._connected_to(name)
        link.expected = frozenset()
        return link

    async def set_capacity(self, slots: int | None) -> None:
        """How many slots the starts of all keepers may fill at once; None for no limit."""
        self._capacity = slots
        await self._share_capacity()

    async def _share_capacity(self) -> None:
        """Tell each keeper how many slots its starts may fill: all but those that are filled elsewhere."""
        for name, link in list(self.links.items()):
            if not link.alive or not link.synced.is_set():
                continue
            elsewhere = sum(job.slots for job, one in self._active() if _running(one) and granted_to(one) != name)
            slots = None if self._capacity is None else max(0, self._capacity - elsewhere)
            try:
                await link.send(op="capacity", slots=slots)
            except KeeperGone:
                continue

    async def _tell(self, link: Link, seen: Sequence[Observation]) -> bool:
        told = await self._reports.tell(seen)
        if link.name != self.current and any(isinstance(one, EndedSeen | FreedSeen) for one in seen):
            await self._share_capacity()
        return told

    def link_of(self, token: str) -> Link | None:
        """The keeper that has a job."""
        return next((link for link in self.links.values() if token in link.known), None)

    def emptied(self, token: str) -> anyio.Event | None:
        """The event of an ended job's process group becoming empty; None where it is."""
        follower = self._aftermath.followers.get(token)
        if follower is not None:
            return follower.emptied
        return next((link.lingering[token] for link in self.links.values() if token in link.lingering), None)


def _running(one: object) -> bool:
    return isinstance(getattr(one, "status", None), Active)


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _order(name: str) -> tuple[int, int]:
    match = _NAME.match(name)
    assert match is not None
    return int(match[1]), int(match[2])
