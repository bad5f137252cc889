"""Reaching the daemon: where its socket is, starting it where that is allowed, and messages over one connection."""

from __future__ import annotations

import errno
import math
import os
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import ByteStream, SocketAttribute

from jobd import paths
from jobd.model.errors import DeniedByDrms, DrmCommunication, Internal, OutOfResource
from jobd.protocol import messages
from jobd.protocol.frames import LineBuffer

ANSWERS_WITHIN = 5.0
"""Seconds that a first connection is tried for where the socket is there and nobody answers: a daemon that restarts."""
STARTS_WITHIN = 30.0
"""Seconds that a daemon which was just started may take until it listens."""

_CHUNK = 256 * 1024
_STEADY = 5.0
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5
_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class Disconnected(DrmCommunication):
    """A connection ended, or there was none. What was under way may have been done or not. Not seen by callers.

    ``absent``: there is no socket; ``unserved``: nobody listens on it, so that no daemon runs.
    """

    absent = False
    unserved = False


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """What the daemon says of itself in its answer to ``hello``; ``store`` names its database."""

    protocol: int
    version: str
    ready: bool
    store: str
    uid: int


class Channel:
    """One connection as messages. Every method raises Disconnected when it is gone."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._lines = LineBuffer()
        self.greeting = Greeting(protocol=0, version="", ready=False, store="", uid=-1)

    async def greet(self, program: str) -> None:
        """Say ``hello``, first of all.

        Raises:
            ProtocolMismatch: there is no version that both speak.
            DeniedByDrms: the daemon does not serve this user.
        """
        await self.send(messages.request(0, "hello", messages.hello_params(program)))
        answer = messages.outcome((await self.receive())[0])
        messages.check_hello(answer)
        try:
            self.greeting = msgspec.convert(answer, Greeting)
        except msgspec.ValidationError as error:
            raise Internal(f"the daemon's greeting can't be understood: {error}") from error

    async def send(self, data: bytes) -> None:
        """Send whole lines. After a cancellation the connection is of no use: a line may have gone in part."""
        try:
            await self._stream.send(data)
        except _GONE as error:
            raise Disconnected("the connection to the daemon was lost") from error

    async def receive(self) -> list[dict[str, Any]]:
        """The next messages, at least one; they are what one read gave, so that memory is bounded.

        Raises:
            Internal: what came is no message.
            FrameTooLong: a message is longer than any may be.
        """
        while True:
            try:
                lines = self._lines.feed(await self._stream.receive(_CHUNK))
            except _GONE as error:
                raise Disconnected("the connection to the daemon was lost") from error
            found = [messages.parse(line) for line in lines if line]
            if found:
                return found

    async def aclose(self) -> None:
        """Close it; the daemon cancels what ran on it. Closing twice is allowed, and a cancelled caller closes, too."""
        with anyio.CancelScope(shield=True):
            await self._stream.aclose()

    def abandon(self) -> None:
        """Close it where nothing can be awaited and nobody reads from it any more."""
        self._stream.extra(SocketAttribute.raw_socket).close()


class Dialer:
    """Makes connections to one daemon.

    Args:
        place: where it is.
        program: how the client calls itself.
        may_start: whether the daemon may be started if nobody answers.
        patience: seconds after which a daemon that is away is given up.
    """

    def __init__(self, place: paths.Place, program: str, *, may_start: bool, patience: float) -> None:
        self.patience = patience
        self.newcomers = 0
        """How many that ask for something new wait for a connection: for them the daemon may be started. What only
        resumes waits for it to come back: else ``jobd shutdown`` would be undone by whoever waits for a job."""
        self._place = place
        self._program = program
        self._may_start = may_start and place.autostart
        self._store: str | None = None

    async def dial(self, deadline: float, *, comes_back: bool) -> Channel:
        """A greeted connection; tried at least once, and again until ``deadline`` (of ``anyio.current_time``).

        ``comes_back``: the daemon has been there, so that a socket that is missing may mean a restart.

        Raises:
            DrmCommunication: nobody answers.
            DeniedByDrms: the socket, or the daemon, is for others.
        """
        pause, started = _FIRST_PAUSE, False
        while True:
            try:
                return await self._try()
            except Disconnected as error:
                failure = error
            if failure.unserved and self.newcomers and self._may_start and not started:
                started = True
                await self._start()
                deadline = max(deadline, anyio.current_time() + STARTS_WITHIN)
            elif failure.absent and not comes_back and not started:
                break
            if anyio.current_time() + pause > deadline:
                break
            await anyio.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 1.5)
        raise DrmCommunication(failure.message, hint=failure.hint) from failure

    async def _try(self) -> Channel:
        channel = await self._open()
        try:
            with anyio.fail_after(ANSWERS_WITHIN):
                await channel.greet(self._program)
            self._check_store(channel.greeting.store)
        except TimeoutError as error:
            await channel.aclose()
            raise DrmCommunication(
                f"the daemon at {self._place.socket} does not answer", hint="see whether it is stopped"
            ) from error
        except BaseException:
            await channel.aclose()
            raise
        return channel

    async def _open(self) -> Channel:
        try:
            with paths.socket_address(self._place.socket) as address:
                return Channel(await anyio.connect_unix(address))
        except OSError as error:
            raise _unreachable(self._place, error) from error

    def _check_store(self, store: str) -> None:
        """Job ids are one database's: in another they would silently mean other jobs."""
        if self._store not in (None, store):
            raise DrmCommunication(
                f"the daemon at {self._place.socket} has another database now",
                hint="connect anew and submit again",
            )
        self._store = store

    async def _start(self) -> None:
        from jobd import autostart  # only where a daemon is to be started

        await anyio.to_thread.run_sync(autostart.start, self._place)


def _unreachable(place: paths.Place, error: OSError) -> DrmCommunication | DeniedByDrms | OutOfResource:
    reason = os.strerror(error.errno or 0)
    if error.errno in (errno.EACCES, errno.EPERM):
        return DeniedByDrms(f"you may not connect to {place.socket}", hint="ask who runs this daemon for access")
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
        return OutOfResource(f"no connection to {place.socket}: {reason}", hint="close what is not needed")
    failure = Disconnected(f"no daemon answers at {place.socket}: {reason}", hint="start it with jobd serve")
    failure.absent = error.errno in (errno.ENOENT, errno.ENOTDIR)
    failure.unserved = failure.absent or error.errno == errno.ECONNREFUSED
    return failure


class Patience:
    """How long one operation puts up with lost connections.

    Its time starts with the first loss, and anew after a connection that lived for some seconds: a wait may outlive any
    number of restarts, but a request on which the daemon dies each time comes to an end.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since = -math.inf
        self._connected = -math.inf

    @property
    def deadline(self) -> float:
        """Until when to try, by ``anyio.current_time``."""
        if self._since == -math.inf:
            return anyio.current_time() + self._seconds
        return self._since + self._seconds

    def connected(self) -> None:
        """There is a connection now."""
        self._connected = anyio.current_time()

    def lost(self, error: Disconnected) -> None:
        """It was lost.

        Raises:
            DrmCommunication: this has gone on for too long.
        """
        now = anyio.current_time()
        if self._since == -math.inf or now - self._connected > min(self._seconds, _STEADY):
            self._since = now
        if now > self.deadline:
            raise DrmCommunication("the connection to the daemon is lost again and again") from error
