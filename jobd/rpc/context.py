"""What the methods work with, and who is asking."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from jobd.backends.base import Backend
from jobd.bookkeeper import Bookkeeper
from jobd.config import Config
from jobd.model.errors import DeniedByDrms, NotFound, TryLater
from jobd.model.job import Job, Owner
from jobd.rpc.lag import LoopLag
from jobd.scheduler import Scheduler
from jobd.store import Store

READY_WAIT = 60.0


@dataclass
class Context:
    """The parts of a running daemon that methods use."""

    config: Callable[[], Config]
    """The configuration in force: a reload changes it."""
    state_dir: Path
    socket: Path
    store: Store
    bookkeeper: Bookkeeper
    scheduler: Scheduler
    backends: Mapping[str, Backend]
    machine: str
    uid: int
    room: Callable[[], Awaitable[None]]
    """Raises OutOfResource when there is no room on disk for new work."""
    shutdown: Callable[[], None]
    lag: LoopLag
    notes: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    ready: anyio.Event = field(default_factory=anyio.Event)

    async def wait_ready(self) -> None:
        """Wait until recovery is done, bounded.

        Raises:
            TryLater: it takes longer.
        """
        if self.ready.is_set():
            return
        with anyio.move_on_after(READY_WAIT):
            await self.ready.wait()
            return
        raise TryLater("the daemon is still recovering", hint="see jobd status, and try again")

    def backend(self, name: str) -> Backend:
        """A backend by its name.

        Raises:
            NotFound: there is none of that name.
        """
        found = self.backends.get(name)
        if found is None:
            raise NotFound(f"there is no backend {name!r}", hint=f"there are: {', '.join(self.backends)}")
        return found


@dataclass(frozen=True)
class Call:
    """One request: who asks, and the way to send notifications that belong to it."""

    context: Context
    id: int | str | None
    owner: Owner
    """Whose jobs this caller's are: in a user's own daemon everybody's are the user's."""
    peer_uid: int
    notify: Callable[[str, Mapping[str, Any]], Awaitable[None]]

    def may_see(self, job: Job) -> bool:
        """Whether the caller may see and control a job: its owner and root may."""
        return self.peer_uid == 0 or job.owner.uid == self.owner.uid

    def require(self, job: Job) -> None:
        """Check that the caller may see and control a job.

        Raises:
            DeniedByDrms: it is another user's.
        """
        if not self.may_see(job):
            raise DeniedByDrms(f"job {job.id} belongs to {job.owner.name}", jobs=[str(job.id)])
