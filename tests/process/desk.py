"""A stand-in for the daemon around a real process backend: keeps jobs in memory by the real transition rules."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel

from jobd.backends.base import Attempt, EndedSeen, Observation
from jobd.backends.process.backend import ProcessBackend
from jobd.backends.process.keeper.tree import descendants, look
from jobd.backends.registry import Surroundings
from jobd.bookkeeper import transitions
from jobd.config import BackendSection
from jobd.inotify import Inotify
from jobd.model.errors import NotFound
from jobd.model.ids import JobId
from jobd.model.job import Job, Owner, Tasks
from jobd.model.states import JobState
from jobd.model.status import Active, Ended, Waiting
from jobd.model.template import JobTemplate, to_text
from jobd.model.tokens import make_token

STORE_ID = "5e1f" + os.urandom(4).hex()
PATIENCE = 15.0
MACHINE = "here"
ME = Owner(os.getuid(), "me")


class Desk:
    """Observer, jobs and environments in one; outlives backends, as a database outlives daemons."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self.generation = 0
        self.seen: list[Observation] = []
        self.before_commit: Callable[[Sequence[Observation]], None] = lambda seen: None
        self.environments: dict[str, bytes] = {}
        self._jobs: dict[JobId, tuple[Job, Tasks]] = {}
        self._changed = anyio.Event()

    # what the backend is given

    async def observe(self, observations: Sequence[Observation]) -> None:
        await anyio.lowlevel.checkpoint()
        self.before_commit(observations)
        self.seen += observations
        for one in observations:
            job, tasks = self._jobs[one.id]
            for step in transitions.observed(job, tasks, one):
                self._jobs[one.id] = job, step
        self._wake()

    def active(self, backend: str) -> Iterable[tuple[Job, Tasks]]:
        return [mine for mine in self._jobs.values() if not mine[1].state.final]

    def attempt(self, id: JobId) -> int | None:
        tasks = self._jobs[id][1]
        return None if tasks.state.final else tasks.attempt

    async def started(self, id: JobId) -> None:
        await self.until(lambda: not isinstance(self.tasks(id).status, Waiting))

    async def ended(self, id: JobId) -> None:
        await self.until(lambda: self.tasks(id).state.final)

    async def environment(self, digest: str) -> bytes:
        try:
            return self.environments[digest]
        except KeyError:
            raise NotFound("no such environment") from None

    # what tests do

    def add(
        self, *command: str | bytes, environment: str | None = None, owner: Owner = ME, **template: object
    ) -> JobId:
        """A new job, waiting."""
        id = JobId(len(self._jobs) + 1)
        parts = [to_text(part) for part in command]
        template.setdefault("working_directory", "/")
        job = Job(
            id=id.job,
            owner=owner,
            session="default",
            backend="local",
            queue="default",
            template=JobTemplate(remote_command=parts[0], args=tuple(parts[1:]), **template),  # type: ignore[arg-type]
            environment=environment,
            submission_time=time.time(),
            submission_machine=MACHINE,
        )
        self._jobs[id] = job, Tasks(job=id.job, status=Waiting(JobState.QUEUED))
        return id

    def intend(self, id: JobId, keeper: str | None) -> Attempt:
        """Commit the intent of the next start."""
        job, tasks = self._jobs[id]
        tasks = transitions.intend(tasks, keeper)
        self._jobs[id] = job, tasks
        token = make_token(STORE_ID, id, tasks.attempt)
        return Attempt(
            id=id, number=tasks.attempt, token=token, job=job, environment=job.environment, granted_to=keeper
        )

    def write_cause(self, id: JobId, cause: str) -> None:
        """What the daemon commits before it has a job ended."""
        job, tasks = self._jobs[id]
        self._jobs[id] = job, transitions._with(tasks, tasks.status, cause=cause)

    def put(self, id: JobId, tasks: Tasks) -> None:
        """Set what the store has of a job."""
        self._jobs[id] = self._jobs[id][0], tasks

    def job(self, id: JobId) -> Job:
        return self._jobs[id][0]

    def tasks(self, id: JobId) -> Tasks:
        return self._jobs[id][1]

    def ends(self, id: JobId) -> list[EndedSeen]:
        return [one for one in self.seen if isinstance(one, EndedSeen) and one.id == id]

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until what was observed makes it true."""
        with anyio.fail_after(PATIENCE):
            while not true():
                await self._changed.wait()

    async def end_of(self, id: JobId) -> Ended:
        """Wait for a job's end."""
        await self.ended(id)
        status = self.tasks(id).status
        assert isinstance(status, Ended)
        return status

    async def running(self, id: JobId) -> int:
        """Wait until a job has come to its exec; its pid."""

        def executed() -> bool:
            status = self.tasks(id).status
            assert not isinstance(status, Ended), status
            return isinstance(status, Active) and status.sub_state is None

        await self.until(executed)
        status = self.tasks(id).status
        assert isinstance(status, Active)
        return int(status.native_id)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    @asynccontextmanager
    async def daemon(self, slots: int | None = None) -> AsyncIterator[Daemon]:
        """A backend of the next generation, recovered. Leaving the context is the death of its daemon: jobs run on."""
        self.generation += 1
        inotify = Inotify()
        backend = ProcessBackend(
            "local",
            BackendSection(),
            Surroundings(
                state_dir=self.state_dir,
                store_id=STORE_ID,
                generation=self.generation,
                machine=MACHINE,
                observer=self,
                environments=self,
                jobs=self,
                inotify=inotify,
            ),
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(inotify.run)
            await tasks.start(backend.run)
            await backend.set_capacity(slots)
            await backend.recover()
            yield Daemon(self, backend)
            tasks.cancel_scope.cancel()
        inotify.close()


class Daemon:
    """A running backend and the ways tests use it."""

    def __init__(self, desk: Desk, backend: ProcessBackend) -> None:
        self.desk = desk
        self.backend = backend

    def start(self, *ids: JobId) -> None:
        self.backend.start([self.desk.intend(id, self.backend.slot_agent()) for id in ids])

    def run(
        self, *command: str | bytes, environment: str | None = None, owner: Owner = ME, **template: object
    ) -> JobId:
        """Submit and start."""
        id = self.desk.add(*command, environment=environment, owner=owner, **template)
        self.start(id)
        return id

    def keeper(self) -> int:
        """The pid of the keeper for new jobs."""
        return next(link.pid for link in self.backend._keepers.links.values() if link.alive)

    async def acknowledged(self) -> None:
        """Wait until the keepers were told that all ends are committed."""
        with anyio.fail_after(PATIENCE):
            while any(link.known for link in self.backend._keepers.links.values()):
                await anyio.lowlevel.checkpoint()

    async def followed(self, count: int) -> None:
        """Wait until so many jobs are followed without a keeper."""
        with anyio.fail_after(PATIENCE):
            while len(self.backend._aftermath.followers) != count:
                await anyio.sleep(0.01)

    async def output(self, id: JobId, stream: str = "stdout", offset: int = 0, *, follow: bool = False) -> bytes:
        data = bytearray()

        async def sink(chunk: bytes) -> None:
            data.extend(chunk)

        job, tasks = self.desk.job(id), self.desk.tasks(id)
        with anyio.fail_after(PATIENCE):
            await self.backend.copy_output(job, tasks, stream, None, offset, sink, follow=follow)
        return bytes(data)


def alive(pid: int) -> bool:
    """Whether a process runs, and is no zombie."""
    seen = look(pid)
    return seen is not None and seen.state != "Z"


async def gone(pid: int) -> None:
    """Wait for the end of a process that may be anybody's child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with anyio.fail_after(PATIENCE):
            await anyio.wait_readable(descriptor)
    finally:
        os.close(descriptor)


async def kill(pid: int) -> None:
    """SIGKILL, and the end."""
    os.kill(pid, signal.SIGKILL)
    await gone(pid)


def end_everything() -> None:
    """End what these tests started and left, and nothing else: it has their store's token in its environment."""
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid() and _ours(int(name)):
            for process in [*descendants(int(name))]:
                _kill(process.pid)
            _kill(int(name))


def _ours(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"JOBD_TOKEN=" + STORE_ID.encode() in file.read()
    except OSError:
        return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
