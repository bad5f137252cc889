"""The client: the way in to everything else (DRMAA2 SessionManager)."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from weakref import WeakSet

import anyio
import msgspec

from jobd import __version__, paths
from jobd.client.capability import Capability, supported
from jobd.client.events import EventStream
from jobd.client.job import Job
from jobd.client.link import Link
from jobd.client.optional import OptionalOperations
from jobd.client.session import JobSession
from jobd.client.transport import Dialer
from jobd.model.errors import InvalidArgument, JobdError, NotFound

DEFAULT_SESSION = "default"
PATIENCE = 60.0
"""Seconds that a daemon may be away before calls give up."""


class Version(NamedTuple):
    """A version, as DRMAA2 has it: two strings."""

    major: str
    minor: str


class BackendStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A place where jobs run: how it is, its active jobs, and which operations and attributes it supports."""

    name: str
    kind: str
    ok: bool
    last_error: str | None
    jobs: int
    operations: tuple[str, ...]
    attributes: tuple[str, ...]


class DaemonStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the daemon is. ``uptime`` and ``loop_lag`` (the worst) in seconds; ``jobs`` counts active ones by state.

    ``ready`` is False while it recovers; ``notes`` are sentences about what is unusual.
    """

    version: str
    ready: bool
    uptime: float
    pid: int
    state_dir: str
    socket: str
    jobs: dict[str, int]
    backends: tuple[BackendStatus, ...]
    loop_lag: float
    notes: tuple[str, ...]


class Client(OptionalOperations):
    """A connection to the daemon that outlives its restarts. ``connect`` makes one.

    Any call raises DrmCommunication where the daemon stays away, TryLater where it is still recovering after a minute,
    and InvalidSession once the client is closed. Calls may be made from several tasks at once; a cancelled one is
    cancelled in the daemon, too, and disturbs no other.
    """

    drms_name = "jobd"
    """What runs the jobs (DRMAA2 drmsName)."""
    drmaa_name = "jobd.client"
    """This implementation of DRMAA2 (drmaaName)."""
    drmaa_version = Version(*__version__.split(".")[:2])
    """The version of this library (DRMAA2 drmaaVersion)."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._sessions: WeakSet[JobSession] = WeakSet()
        self._default = self._open(DEFAULT_SESSION, None)

    @property
    def drms_version(self) -> Version:
        """The version of the daemon that was connected to last (DRMAA2 drmsVersion)."""
        major, _, rest = self._link.greeting.version.partition(".")
        return Version(major, rest.partition(".")[0])

    @property
    def session(self) -> JobSession:
        """The default session, which is always there."""
        return self._default

    async def create_job_session(self, name: str | None = None, contact: str | None = None) -> JobSession:
        """Make a session and open it (DRMAA2 createJobSession).

        Args:
            name: its name; None makes one up.
            contact: any text, kept with it.

        Raises:
            InvalidArgument: there is one of that name.
        """
        name = f"session-{uuid.uuid4().hex}" if name is None else name

        async def made(error: JobdError) -> bool:
            return isinstance(error, InvalidArgument) and await self._is_there(name, contact)

        await self._link.call("session_create", {"name": name, "contact": contact}, settled=made)
        return self._open(name, contact)

    async def open_job_session(self, name: str) -> JobSession:
        """Open a session, also one that is open already (DRMAA2 openJobSession).

        Raises:
            NotFound: there is none of that name.
        """
        answer = await self._link.call("session_open", {"name": name})
        return self._open(answer["name"], answer["contact"])

    async def destroy_job_session(self, name: str) -> None:
        """Remove a session; its jobs are left as they are (DRMAA2 destroyJobSession).

        Raises:
            NotFound: there is none of that name.
            InvalidArgument: it is the default session.
        """

        async def gone(error: JobdError) -> bool:
            return isinstance(error, NotFound)

        await self._link.call("session_destroy", {"name": name}, settled=gone)
        for session in self._sessions:
            if session.name == name:
                session.end("destroyed")

    async def get_job_session_names(self) -> list[str]:
        """The names of the caller's sessions, the default one among them (DRMAA2 getJobSessionNames)."""
        answer = await self._link.call("session_list", {})
        return [session["name"] for session in answer["sessions"]]

    def events(self, since: int | None = None, job: Job | str | None = None, *, follow: bool = True) -> EventStream:
        """Transitions, in order and without a gap, those that are kept and those to come.

        Args:
            since: only those after this number; 0 for all that are kept, None to begin now. "Now" is when the stream is
                entered with ``async with``, or its first item is asked for.
            job: only those of one job.
            follow: False to end with the newest one.
        """
        return EventStream(self._link, since, job.id if isinstance(job, Job) else job, follow=follow)

    async def status(self) -> DaemonStatus:
        """How the daemon is; answered while it recovers, too."""
        return msgspec.convert(await self._link.call("status", {}), DaemonStatus)

    async def supports(self, capability: Capability) -> bool:
        """Whether an optional feature of DRMAA2 is there, on any backend."""
        answer = await self._link.call("backend_list", {})
        backends = msgspec.convert(answer["backends"], tuple[BackendStatus, ...])
        return any(supported(capability, backend.attributes) for backend in backends)

    async def aclose(self) -> None:
        """Close the client before its ``async with`` ends. Closing twice is allowed."""
        await self._link.aclose()

    def _open(self, name: str, contact: str | None) -> JobSession:
        session = JobSession(self._link, name, contact)
        self._sessions.add(session)
        return session

    async def _is_there(self, name: str, contact: str | None) -> bool:
        answer = await self._link.call("session_open", {"name": name})
        return bool(answer["contact"] == (contact or ""))


@asynccontextmanager
async def connect(
    socket: str | os.PathLike[str] | None = None,
    state_dir: str | os.PathLike[str] | None = None,
    autostart: bool | None = None,
    *,
    patience: float = PATIENCE,
) -> AsyncIterator[Client]:
    """Connect to the daemon, starting a user's own where none runs.

    Works under asyncio and trio. The client is closed at the end of the ``async with``, and what is raised in it comes
    out as it is, in no exception group.

    Args:
        socket: the daemon's socket, by default where JOBD_SOCKET, JOBD_STATE_DIR or the installation say.
        state_dir: the state folder of the daemon, in place of ``socket``.
        autostart: whether to start the daemon; by default unless JOBD_NO_AUTOSTART=1 is set. The system's is never
            started.
        patience: seconds that the daemon may be away, as in a restart, before calls give up.

    Raises:
        DrmCommunication: the daemon can't be reached.
        DeniedByDrms: it does not serve this user.
        ProtocolMismatch: client and daemon share no version of the protocol.
        InvalidArgument: both a socket and a state folder were given.
    """
    place = _place(socket, state_dir)
    may_start = os.environ.get("JOBD_NO_AUTOSTART", "") in ("", "0") if autostart is None else autostart
    dialer = Dialer(place, f"jobd.client {__version__}", may_start=may_start, patience=patience)
    failure: BaseException | None = None
    async with anyio.create_task_group() as tasks:
        link = Link(dialer, tasks)
        try:
            await link.open()
            yield Client(link)
        except (anyio.get_cancelled_exc_class(), GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001  (raised below)
            # Raised in here it would come out in an exception group.
            failure = error
        finally:
            await link.aclose()
    if failure is not None:
        raise failure


def _place(socket: str | os.PathLike[str] | None, state_dir: str | os.PathLike[str] | None) -> paths.Place:
    if socket is not None and state_dir is not None:
        raise InvalidArgument("both a socket and a state folder were given", hint="give one of them")
    environ: Mapping[str, Any] = os.environ
    if state_dir is not None:
        environ = {**environ, "JOBD_SOCKET": "", "JOBD_STATE_DIR": os.fspath(state_dir)}
    return paths.find(environ, None if socket is None else os.fspath(socket))
