"""The composition root: configuration → store → bookkeeper → backends → socket; start, recover, stop."""

from __future__ import annotations

import os
import platform
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import anyio
import structlog
from anyio.abc import TaskGroup

from jobd import autostart, logs, notify, paths
from jobd import config as configuration
from jobd.backends import registry
from jobd.backends.base import Attempt
from jobd.bookkeeper import Bookkeeper
from jobd.bookkeeper.view import JobsView
from jobd.config import Config
from jobd.descriptors import raise_own_limit
from jobd.housekeeping import Housekeeping
from jobd.inotify import Inotify
from jobd.listening import Listening, inherited_sockets
from jobd.lock import AlreadyRunning, StateLock
from jobd.model.errors import JobdError, first_of
from jobd.model.job import Job, Tasks
from jobd.model.tokens import make_token
from jobd.room import Room
from jobd.rpc.context import Context
from jobd.rpc.lag import LoopLag
from jobd.rpc.methods import METHODS
from jobd.rpc.server import Server
from jobd.scheduler import Scheduler
from jobd.scheduler.gate import Gate
from jobd.store import Store

_log = structlog.get_logger(__name__)


_LEAVE_WITHIN = 3.0


@dataclass(frozen=True)
class Options:
    """What ``jobd serve`` was told on its command line; None where it was not."""

    state_dir: str | None = None
    socket: str | None = None
    config: str | None = None
    log_level: str | None = None


def main(options: Options, environ: Mapping[str, str] = os.environ) -> int:
    """Run the daemon until it is told to stop; the exit status.

    Raises:
        JobdError: it can't start; the message says why and what to do.
    """
    # Whatever umask the caller had: socket, database and output get their modes from the first instant.
    os.umask(0o077)
    raise_own_limit()
    place = paths.for_daemon(environ, options.state_dir)
    paths.ensure_private_folder(place.state_dir)
    config_path = paths.config_path(environ, options.config, place)
    config = configuration.load(config_path)
    logs.configure(options.log_level or config.daemon.log_level)
    try:
        lock = StateLock(place.state_dir)
    except AlreadyRunning:
        if autostart.is_autostarted(environ):
            return 0  # another one was quicker, and is as good
        raise
    with lock:
        _run(Daemon(place, options, config, config_path, environ))
    return 0


def _run(daemon: Daemon) -> None:
    """Out of a task group an error comes as a group of one, which no caller is prepared for."""
    failed: JobdError | None = None
    try:
        anyio.run(daemon.run)
    except* JobdError as group:
        failed = first_of(group)
    if failed is not None:
        raise failed


class Daemon:
    """One daemon's life, from the lock on its state folder to its stop."""

    def __init__(
        self,
        place: paths.Place,
        options: Options,
        config: Config,
        config_path: Path,
        environ: Mapping[str, str],
    ) -> None:
        self._place = place
        self._options = options
        self._config = config
        self._config_path = config_path
        self._environ = environ
        self._machine = platform.node()
        self._stop = anyio.Event()
        self._ready = anyio.Event()
        self._notifier = notify.Notifier(environ)

    async def run(self) -> None:
        """Start, recover, serve, stop. Jobs run on after it."""
        self._scheduler = Scheduler(self._config.scheduler.effective_slots())
        self._lag = LoopLag()
        self._inotify = Inotify()
        self._room = Room(self._place.state_dir, lambda: self._config.storage.min_free)
        with closing(self._inotify):
            await self._until_stopped()

    async def _until_stopped(self) -> None:
        async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
            await tasks.start(self._signals)
            await self._serve(stack, tasks)
            await self._stop.wait()
            _log.info("stopping; jobs run on")
            self._notifier.send("STOPPING=1")
            leaving = self._agents_without_work()
            tasks.cancel_scope.cancel()
        with anyio.move_on_after(_LEAVE_WITHIN):
            for pid in leaving:
                await _gone(pid)

    def _agents_without_work(self) -> set[int]:
        """Where no job is active the backends' processes go with the daemon."""
        if len(self._bookkeeper.picture):
            return set()
        return {pid for backend in self._backends.values() for pid in backend.agents()}

    async def _serve(self, stack: AsyncExitStack, tasks: TaskGroup) -> None:
        self._store = await stack.enter_async_context(Store.open(self._place.state_dir))
        generation = await self._store.generation()
        self._bookkeeper = Bookkeeper(self._store, self._scheduler, time.time, self._room.shortage, self._agent)
        await self._bookkeeper.load()
        self._backends = registry.create(
            self._config.backends,
            registry.Surroundings(
                state_dir=self._place.state_dir,
                store_id=self._store.store_id,
                generation=generation,
                machine=self._machine,
                observer=self._bookkeeper,
                environments=self._store,
                jobs=JobsView(self._bookkeeper),
                inotify=self._inotify,
            ),
        )
        context = self._context()
        listening = await stack.enter_async_context(self._listening(context, tasks))
        autostart.let_go(self._environ)
        _log.info("listening", socket=os.fspath(listening.path), generation=generation)
        for task in (
            self._bookkeeper.run,
            self._lag.run,
            self._gate().run,
            self._inotify.run,
            listening.watch,
        ):
            tasks.start_soon(task)
        tasks.start_soon(self._housekeeping().run)
        await self._recover(tasks)

    async def _recover(self, tasks: TaskGroup) -> None:
        """Find again what was running, before any start and before ``ready``."""
        self._notifier.send("STATUS=recovering")
        for backend in self._backends.values():
            await tasks.start(backend.run)
            await backend.set_capacity(self._scheduler.slots)
            await backend.recover()
        self._bookkeeper.start_with(self._start)
        self._ready.set()
        self._notifier.send("READY=1\nSTATUS=ready")
        tasks.start_soon(self._notifier.watchdog)
        _log.info("ready", active=len(self._bookkeeper.picture))

    def _context(self) -> Context:
        notes = [self._place.note] if self._place.note else []
        return Context(
            config=lambda: self._config,
            state_dir=self._place.state_dir,
            socket=self._socket_path(),
            store=self._store,
            bookkeeper=self._bookkeeper,
            scheduler=self._scheduler,
            backends=self._backends,
            machine=self._machine,
            uid=os.getuid(),
            room=self._room.require,
            shutdown=self._stop.set,
            lag=self._lag,
            notes=notes,
            ready=self._ready,
        )

    def _socket_path(self) -> Path:
        return Path(self._options.socket) if self._options.socket else self._place.socket

    def _listening(self, context: Context, tasks: TaskGroup) -> Listening:
        return Listening(
            self._socket_path(),
            Server(context, METHODS),
            tasks,
            inherited_sockets(self._environ),
            self._inotify,
            shared=self._place.system,
        )

    def _housekeeping(self) -> Housekeeping:
        return Housekeeping(self._bookkeeper, self._backends, lambda: self._config.retention, self._place.state_dir)

    def _gate(self) -> Gate:
        gate = Gate(self._scheduler, self._room.shortage, self._bookkeeper.wake)
        self._bookkeeper.on_refused = gate.refused
        return gate

    def _agent(self, job: Job) -> str | None:
        return self._backends[job.backend].slot_agent()

    def _start(self, intents: Sequence[tuple[Job, Tasks]]) -> None:
        """Hand committed intents to their backends."""
        by_backend: dict[str, list[Attempt]] = {}
        for job, tasks in intents:
            by_backend.setdefault(job.backend, []).append(self._attempt(job, tasks))
        for name, attempts in by_backend.items():
            self._backends[name].start(attempts)

    def _attempt(self, job: Job, tasks: Tasks) -> Attempt:
        return Attempt(
            id=tasks.id,
            number=tasks.attempt,
            token=make_token(self._store.store_id, tasks.id, tasks.attempt),
            job=job,
            environment=job.environment,
            granted_to=getattr(tasks.status, "granted_to", None),
        )

    async def _signals(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
            task_status.started()
            async for number in received:
                if number is not signal.SIGHUP:
                    self._stop.set()
                elif self._ready.is_set():  # before that the file was read a moment ago
                    await self._reload()

    async def _reload(self) -> None:
        """Read the configuration again; a bad file leaves the old one in force."""
        try:
            fresh = await anyio.to_thread.run_sync(configuration.load, self._config_path)
        except JobdError as error:
            _log.error("the configuration was not reloaded", error=error.message, hint=error.hint)
            return
        self._config = fresh
        logs.configure(self._options.log_level or fresh.daemon.log_level)
        self._scheduler.slots = fresh.scheduler.effective_slots()
        for backend in self._backends.values():
            await backend.set_capacity(self._scheduler.slots)
        self._bookkeeper.wake()
        _log.info("configuration reloaded", slots=self._scheduler.slots)


async def _gone(pid: int) -> None:
    """Wait for the end of a process that is leaving."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await anyio.wait_readable(descriptor)
    finally:
        os.close(descriptor)
