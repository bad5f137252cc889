"""What the daemon asks of every place where jobs run, and what such a place reports back.

A backend never touches the store and never changes a job's state: it acts when told, and what it sees goes to the
``Observer`` that it was given, which returns once it is committed. Third parties register theirs under the entry-point
group ``jobd.backends``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Protocol

import msgspec
from anyio.abc import TaskStatus

from jobd.model.ids import JobId
from jobd.model.job import Job, Owner, Tasks
from jobd.model.status import Outcome, Usage
from jobd.model.template import JobTemplate, Text


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend can do, by name: control operations and the template attributes that it honours."""

    operations: frozenset[str]
    attributes: frozenset[str]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How a backend is. ``last_error`` stays until the next success; ``since`` is seconds since the epoch."""

    ok: bool
    last_error: str | None = None
    since: float | None = None


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One start that was committed: the intent. ``token`` is unique to it and is put where it can be found again.

    ``environment`` is the digest of the stored environment, None for the owner's minimal one; the backend reads its
    content through the ``Environments`` that it was made with.
    """

    id: JobId
    number: int
    token: str
    job: Job
    environment: str | None
    granted_to: str | None


class StartedSeen(msgspec.Struct, frozen=True, kw_only=True):
    """It runs. ``executed`` is False while the child has not reached its exec; a second one with True follows."""

    id: JobId
    attempt: int
    native_id: str
    at: float
    machine: str
    granted_to: str | None = None
    executed: bool = True


class StoppedSeen(msgspec.Struct, frozen=True):
    """Its processes are stopped, whoever stopped them."""

    id: JobId
    attempt: int


class ContinuedSeen(msgspec.Struct, frozen=True):
    """Its processes run again."""

    id: JobId
    attempt: int


class EndedSeen(msgspec.Struct, frozen=True, kw_only=True):
    """It ended. ``cause`` is set where jobd ended it on its own (time-limit, deadline); ``freed``: its slots are free.

    ``sub_state`` is None for the usual (derived from outcome and cause), or says more (node-rebooted).
    """

    id: JobId
    attempt: int
    outcome: Outcome
    at: float
    native_id: str | None = None
    machine: str | None = None
    wallclock_time: float | None = None
    usage: Usage = Usage()
    cause: str | None = None
    sub_state: str | None = None
    annotation: str | None = None
    freed: bool = True


class FreedSeen(msgspec.Struct, frozen=True):
    """What was left of an ended job's process group is gone: its slots are free."""

    id: JobId
    attempt: int


class RefusedSeen(msgspec.Struct, frozen=True):
    """It was not started, and may be later: descriptors, processes or disk ran out, or the grant came back.

    ``reason`` is a sentence for ``explain``; None where nothing was wrong (a grant taken back).
    """

    id: JobId
    attempt: int
    reason: str | None = None


Observation = StartedSeen | StoppedSeen | ContinuedSeen | EndedSeen | FreedSeen | RefusedSeen


class Observer(Protocol):
    """Where a backend reports to. It returns once everything is committed."""

    async def observe(self, observations: Sequence[Observation]) -> None:
        """Take what was seen, in order. A repeat of what is known changes nothing.

        Raises:
            OutOfResource: it can't be committed now (disk full); the backend keeps it and reports again.
        """


Sink = Callable[[bytes], Awaitable[None]]
"""Takes a chunk of output; waits while whoever reads it lags behind."""


class Jobs(Protocol):
    """What a backend may ask of the daemon's picture of its jobs."""

    def active(self, backend: str) -> Iterable[tuple[Job, Tasks]]:
        """Its jobs that have not ended."""

    def attempt(self, id: JobId) -> int | None:
        """The attempt that an active job is at."""

    async def started(self, id: JobId) -> None:
        """Wait until a job has come to its exec, or has ended."""

    async def ended(self, id: JobId) -> None:
        """Wait until a job has ended."""


class Environments(Protocol):
    """Where a backend reads stored environments."""

    async def environment(self, digest: str) -> bytes:
        """The ``NAME=value`` entries joined by NUL."""


class Backend(Protocol):
    """A place where jobs run."""

    name: str
    kind: str
    capabilities: Capabilities

    def check(self, template: JobTemplate, owner: Owner) -> None:
        """Refuse what this backend can't honour.

        Raises:
            UnsupportedAttribute, InvalidArgument: by the attribute's name.
        """

    def health(self) -> Health:
        """How it is now."""

    def slot_agent(self) -> str | None:
        """The name to write into the next intents (``granted_to``), None where it needs none or has none yet."""

    def agents(self) -> Collection[int]:
        """The pids of its processes that outlive the daemon as long as there are jobs."""

    async def recover(self) -> None:
        """Find again what was running or intended when the last daemon ended; report what happened meanwhile.

        Called once, before any start. Returns when all that can be asked has been asked.
        """

    def start(self, attempts: Sequence[Attempt]) -> None:
        """Start committed attempts, in order, each as soon as its slots are free.

        Takes them over at once and never blocks; a ``revoke`` that follows reaches also those that have not left yet.
        """

    async def set_capacity(self, slots: int | None) -> None:
        """How many slots its own starts may fill at once; None for no limit."""

    async def revoke(self, ids: Sequence[JobId]) -> Sequence[JobId]:
        """Take granted starts back; those that did not start and now never will are returned.

        The start of each other one has been reported and committed by the time it returns.
        """

    async def suspend(self, id: JobId) -> None:
        """Stop all its processes; returns once that was observed and reported."""

    async def resume(self, id: JobId) -> None:
        """Let them go on; returns once that was observed and reported."""

    async def terminate(self, id: JobId, cause: str, grace: float) -> None:
        """End the whole tree: TERM, ``grace`` seconds, KILL (0: KILL at once). Returns when the tree is gone.

        Raises:
            CannotEnd: processes outlived the KILL by 10 s; names their pids.
        """

    async def signal(self, id: JobId, number: int, *, leader_only: bool) -> None:
        """Send a signal to the whole job or to its leader."""

    async def tree_gone(self, job: Job, tasks: Tasks) -> None:
        """Wait until no process of an ended job is left, ending them at once."""

    async def forget(self, ids: Sequence[JobId]) -> None:
        """Delete what it keeps of ended jobs: captured output."""

    async def files(self, job: Job, tasks: Tasks) -> dict[str, Text | None]:
        """Where its input and output lie: ``stdin``, ``stdout``, ``stderr``; None for /dev/null and what is joined."""

    async def tail_offset(self, job: Job, tasks: Tasks, stream: str, attempt: int | None, lines: int) -> int:
        """The offset in bytes at which the last ``lines`` lines of an output begin."""

    async def copy_output(
        self,
        job: Job,
        tasks: Tasks,
        stream: str,
        attempt: int | None,
        offset: int,
        sink: Sink,
        *,
        follow: bool,
    ) -> None:
        """Give ``sink`` the bytes of ``stdout`` or ``stderr`` from an offset, in bounded chunks.

        ``follow``: waits for a job that has not started, and goes on until it has ended and its process group is empty,
        half a second after its end at the latest. ``attempt`` None is the last one.

        Raises:
            NotFound: there is no such attempt, or its output can't be read.
        """

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Serve until cancelled; jobs run on. Ready (``task_status.started()``) before ``recover`` is called."""
