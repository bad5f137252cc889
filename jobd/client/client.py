"""The client: finds and starts the daemon, sends requests over one connection, and comes back after a restart."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup

from jobd import __version__, paths
from jobd.autostart import start
from jobd.client.capability import SUPPORTED, Capability
from jobd.client.channel import Channel, Lost
from jobd.client.events import JobEvent, Truncated, read_event
from jobd.client.session import JobSession
from jobd.model.errors import DrmCommunication, UnsupportedOperation
from jobd.protocol import messages

DEFAULT_SESSION = "default"
_PAUSE = 0.02
_LONGEST_PAUSE = 0.5
_PROGRAM = "jobd.client"


@asynccontextmanager
async def connect(
    socket: str | os.PathLike[str] | None = None,
    state_dir: str | os.PathLike[str] | None = None,
    *,
    autostart: bool = True,
    patience: float = 60.0,
) -> AsyncIterator[Client]:
    """A client, for as long as the context lasts.

    Args:
        socket: the daemon's socket; by default it is found as the command line finds it.
        state_dir: the state folder of the daemon, instead.
        autostart: whether a user's own daemon is started where there is none.
        patience: seconds to wait for a daemon that went away.

    Raises:
        DrmCommunication: nobody answers.
        DeniedByDrms: the socket is not for this user.
    """
    environ = dict(os.environ)
    if state_dir is not None:
        environ.pop("JOBD_SOCKET", None)
        environ["JOBD_STATE_DIR"] = os.fspath(state_dir)
    place = paths.find(environ, None if socket is None else os.fspath(socket))
    allowed = autostart and place.autostart and environ.get("JOBD_NO_AUTOSTART", "") in ("", "0")
    error: Exception | None = None
    async with anyio.create_task_group() as tasks:
        client = Client(place, tasks, autostart=allowed, patience=patience)
        try:
            await client.request("status", {})
            yield client
        except Exception as raised:
            # Out of the task group it would come as a group of one, which is no one's error.
            error = raised
        finally:
            with anyio.CancelScope(shield=True):
                await client.aclose()
            tasks.cancel_scope.cancel()
    if error is not None:
        raise error


class _Pending:
    """A request that waits for its answer; None is a connection that was cut."""

    def __init__(self) -> None:
        self.message: dict[str, Any] | None = None
        self.done = anyio.Event()


class Client:
    """Talks to one daemon. Made by ``connect``.

    Requests of any number of tasks share a connection; streams of events and output have one each, so that a slow
    reader holds up nobody else.
    """

    def __init__(self, place: paths.Place, tasks: TaskGroup, *, autostart: bool, patience: float) -> None:
        self._place = place
        self._tasks = tasks
        self._autostart = autostart
        self._patience = patience
        self._channel: Channel | None = None
        self._pending: dict[int, _Pending] = {}
        self._connecting = anyio.Lock()
        self.session = JobSession(self, DEFAULT_SESSION, "")

    async def aclose(self) -> None:
        """Hang up. A second call does nothing."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.aclose()

    async def request(self, method: str, params: dict[str, Any] | Callable[[], dict[str, Any]]) -> Any:
        """Send a request and return its result; sent again where the connection is cut, so it must bear a repeat.

        ``params`` may be a function, which is asked again for each sending (a timeout that has grown shorter).

        Raises:
            JobdError: its error, or DrmCommunication where nobody answers.
        """
        until = anyio.current_time() + self._patience
        while True:
            channel = await self._connected(until)
            try:
                message = await self._exchange(channel, method, params() if callable(params) else params)
            except Lost:
                continue
            return messages.outcome(message)

    async def _exchange(self, channel: Channel, method: str, params: dict[str, Any]) -> dict[str, Any]:
        pending = _Pending()
        number = channel.next_number()
        self._pending[number] = pending
        try:
            await channel.send(method, params, number)
            await pending.done.wait()
        except anyio.get_cancelled_exc_class():
            self._tasks.start_soon(_give_up, channel, number)
            raise
        finally:
            self._pending.pop(number, None)
        if pending.message is None:
            raise Lost
        return pending.message

    async def _connected(self, until: float) -> Channel:
        async with self._connecting:
            if self._channel is None:
                self._channel = await self.open_channel(until)
                self._tasks.start_soon(self._read, self._channel)
            return self._channel

    async def _read(self, channel: Channel) -> None:
        """Hand answers out until the connection is cut."""
        try:
            while True:
                message = await channel.receive()
                pending = self._pending.get(message.get("id", -1))
                if pending is not None and "method" not in message:
                    pending.message = message
                    pending.done.set()
        except Lost:
            pass
        finally:
            if self._channel is channel:
                self._channel = None
            for pending in self._pending.values():
                pending.done.set()
            with anyio.CancelScope(shield=True):
                await channel.aclose()

    async def open_channel(self, until: float | None = None) -> Channel:
        """A connection of its own, tried for until a time; the daemon is started where that is allowed.

        Raises:
            DrmCommunication: nobody answers.
        """
        until = anyio.current_time() + self._patience if until is None else until
        pause = _PAUSE
        while True:
            try:
                return await Channel.open(self._place, _PROGRAM)
            except Lost as error:
                if self._autostart:
                    self._autostart = False
                    await anyio.to_thread.run_sync(start, self._place)
                elif anyio.current_time() > until:
                    raise DrmCommunication(f"nobody answers at {self._place.socket}", hint="jobd serve") from error
                elif not self._place.socket.exists() and not self._place.autostart:
                    raise DrmCommunication(f"there is no daemon at {self._place.socket}", hint="jobd serve") from error
            await anyio.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 1.5)

    async def create_job_session(self, name: str | None = None, contact: str | None = None) -> JobSession:
        """Make and open a session; a name is made up where none is given (DRMAA2 createJobSession).

        Raises:
            InvalidArgument: there is one of that name.
        """
        return self._session(await self.request("session_create", {"name": name, "contact": contact}))

    async def open_job_session(self, name: str) -> JobSession:
        """Open a session that is there (DRMAA2 openJobSession).

        Raises:
            NotFound: there is none of that name; an InvalidArgument.
        """
        return self._session(await self.request("session_open", {"name": name}))

    def _session(self, row: dict[str, str]) -> JobSession:
        return JobSession(self, row["name"], row["contact"])

    async def destroy_job_session(self, name: str) -> None:
        """Remove a session; its jobs stay as they are (DRMAA2 destroyJobSession).

        Raises:
            NotFound: there is none of that name; an InvalidArgument.
        """
        await self.request("session_destroy", {"name": name})

    async def get_job_session_names(self) -> list[str]:
        """The names of the caller's sessions (DRMAA2 getJobSessionNames)."""
        rows = (await self.request("session_list", {}))["sessions"]
        return [row["name"] for row in rows]

    async def events(self, since: int | None = None, job: str | None = None) -> AsyncIterator[JobEvent | Truncated]:
        """State changes after a number (0: all that is kept; None: from now), in order, through any restart.

        Events that were lost to retention show as one ``Truncated``.
        """
        if since is None:
            since = int((await self.request("status", {}))["last_event"])
        while True:
            channel = await self.open_channel()
            try:
                await channel.send("events", {"since": since, "follow": True, "job": job})
                while True:
                    message = await channel.receive()
                    if message.get("method") == "event":
                        item = read_event(message["params"]["event"])
                        since = item.first - 1 if isinstance(item, Truncated) else item.seq
                        yield item
                    elif "error" in message:
                        messages.outcome(message)
            except Lost:
                continue
            finally:
                with anyio.CancelScope(shield=True):
                    await channel.aclose()

    async def status(self) -> dict[str, Any]:
        """How the daemon is (docs/protocol.md, "status")."""
        result: dict[str, Any] = await self.request("status", {})
        return result

    @property
    def drms_name(self) -> str:
        """The system behind DRMAA2's interface."""
        return "jobd"

    @property
    def drms_version(self) -> tuple[str, str]:
        """Its major and minor version."""
        return _version()

    @property
    def drmaa_name(self) -> str:
        """The implementation of DRMAA2."""
        return "jobd"

    @property
    def drmaa_version(self) -> tuple[str, str]:
        """Major and minor version of the standard that is implemented (GFD.231 is 2.2)."""
        return ("2", "2")

    def supports(self, capability: Capability) -> bool:
        """Whether an optional part of DRMAA2 is there."""
        return capability in SUPPORTED

    async def get_reservation_session_names(self) -> list[str]:
        """DRMAA2 getReservationSessionNames.

        Raises:
            UnsupportedOperation: always.
        """
        raise _no_reservations()

    async def create_reservation_session(self, name: str, contact: str | None = None) -> None:
        """DRMAA2 createReservationSession.

        Raises:
            UnsupportedOperation: always.
        """
        raise _no_reservations()

    async def open_reservation_session(self, name: str) -> None:
        """DRMAA2 openReservationSession.

        Raises:
            UnsupportedOperation: always.
        """
        raise _no_reservations()

    async def destroy_reservation_session(self, name: str) -> None:
        """DRMAA2 destroyReservationSession.

        Raises:
            UnsupportedOperation: always.
        """
        raise _no_reservations()


async def _give_up(channel: Channel, number: int) -> None:
    """Nobody waits for an answer any more."""
    try:
        await channel.cancel(number)
    except Lost:
        return


def _version() -> tuple[str, str]:
    major, minor, *_ = __version__.split(".")
    return major, minor


def _no_reservations() -> UnsupportedOperation:
    return UnsupportedOperation("reservations are not supported", hint="supports(Capability.ADVANCE_RESERVATION) tells")
