"""The way to the daemon that outlives its restarts: requests are sent again, streams go on where they were."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from weakref import WeakSet

import anyio
from anyio.abc import TaskGroup

from jobd.client.connection import Connection
from jobd.client.transport import ANSWERS_WITHIN, Channel, Dialer, Disconnected, Greeting, Patience
from jobd.client.wire import to_wire
from jobd.model.errors import DrmCommunication, InvalidArgument, InvalidSession, JobdError, Timeout

_MARGIN = 1.0
"""Seconds that the daemon's own Timeout may take to arrive before the client's clock decides."""

Check = Callable[[Any], None]
Settled = Callable[[JobdError], Awaitable[bool]]
"""Whether the error that a repeated request met says that the first one was done."""


def _no_check(answer: Any) -> None:
    """Most answers have no error in them."""


async def _never(error: JobdError) -> bool:
    """Most errors are errors, the second time too."""
    return False


class Stream(Protocol):
    """A subscription with a connection of its own."""

    async def aclose(self) -> None:
        """End it."""


class Link:
    """Connections to one daemon, made when they are needed.

    Requests share a connection; more than it takes go to a second one. Nothing runs and nothing is tried again while
    nobody asks for anything.

    Args:
        dialer: makes connections.
        tasks: the client's task group, which owns the connections' tasks.
    """

    def __init__(self, dialer: Dialer, tasks: TaskGroup) -> None:
        self._dialer = dialer
        self._tasks = tasks
        self._connections: list[Connection] = []
        self._dialling = anyio.Lock()
        self._scopes: set[anyio.CancelScope] = set()
        self._streams: WeakSet[Stream] = WeakSet()
        self._closed = False
        self.greeting: Greeting

    @property
    def patience(self) -> float:
        """Seconds after which a daemon that is away is given up."""
        return self._dialer.patience

    async def open(self) -> None:
        """Connect for the first time.

        Raises:
            DrmCommunication: no daemon is there, or it does not answer within a few seconds.
            DeniedByDrms: the socket, or the daemon, is for others.
        """
        deadline = anyio.current_time() + min(ANSWERS_WITHIN, self._dialer.patience)
        with self._newcomer(True):
            self._adopt(await self._dialer.dial(deadline, comes_back=False))

    async def call(
        self,
        method: str,
        params: dict[str, Any],
        *,
        repeat: bool = True,
        check: Check = _no_check,
        settled: Settled = _never,
    ) -> Any:
        """Ask the daemon, again if the connection is lost before the answer.

        Args:
            method: the method of the wire.
            params: its parameters, with any values that ``to_wire`` takes.
            repeat: False for what must not be done twice.
            check: raises a JobdError that the answer has in it.
            settled: judges an error that a repeated request met; where the first was done, the answer is None.

        Raises:
            DrmCommunication: the daemon stays away; or, without ``repeat``, it left before it answered.
            InvalidSession: the client is closed.
            JobdError: whatever the daemon answers.
        """
        wire = to_wire(params)
        return await self._ask(method, lambda: wire, repeat, check, settled)

    async def wait(self, params: dict[str, Any], timeout: float | None) -> Any:
        """The method ``wait``, within ``timeout`` seconds also while the daemon is away.

        Raises:
            Timeout: it did not come in time.
            InvalidArgument: the timeout is negative.
        """
        if timeout is None or timeout == math.inf:
            return await self.call("wait", params)
        if not timeout >= 0:
            raise InvalidArgument(f"a timeout of {timeout} seconds", hint="0 does not wait, None waits for ever")
        if timeout == 0:
            return await self.call("wait", {**params, "timeout": 0})
        wire = to_wire(params)
        deadline = anyio.current_time() + timeout

        def with_time_left() -> dict[str, Any]:
            return {**wire, "timeout": max(0.0, deadline - anyio.current_time())}

        with anyio.move_on_after(timeout + _MARGIN):
            return await self._ask("wait", with_time_left)
        raise Timeout(f"not within {timeout:g} s", jobs=params["selection"]["ids"])

    async def _ask(
        self,
        method: str,
        params: Callable[[], dict[str, Any]],
        repeat: bool = True,
        check: Check = _no_check,
        settled: Settled = _never,
    ) -> Any:
        patience = Patience(self._dialer.patience)
        repeated = False
        while True:
            connection = await self._connection(patience.deadline, fresh=not repeated)
            patience.connected()
            try:
                answer = await connection.request(method, params())
                check(answer)
                return answer
            except Disconnected as error:
                if not repeat:
                    raise _unknown(method) from error
                patience.lost(error)
                repeated = True
            except JobdError as error:
                if repeated and await settled(error):
                    return None
                raise

    async def dial(self, deadline: float, *, fresh: bool) -> Channel:
        """A connection for one stream alone; the stream closes it. Tried until ``deadline``.

        Raises:
            DrmCommunication: the daemon stays away.
            InvalidSession: the client is closed.
        """
        self._require_open()
        with self._newcomer(fresh), anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                channel = await self._dialer.dial(deadline, comes_back=True)
            finally:
                self._scopes.discard(scope)
            if not self._closed:
                return channel
            await channel.aclose()
        raise _closed()

    def watch(self, stream: Stream) -> None:
        """End a stream with the client, unless it is gone by then."""
        self._streams.add(stream)

    async def aclose(self) -> None:
        """Close every connection; what still waits gets InvalidSession. Closing twice is allowed."""
        self._closed = True
        for scope in self._scopes:
            scope.cancel()
        for connection in self._connections:
            connection.close()
        for stream in list(self._streams):
            await stream.aclose()

    async def _connection(self, deadline: float, *, fresh: bool) -> Connection:
        while True:
            self._require_open()
            found = self._with_room()
            if found is not None:
                return found
            with self._newcomer(fresh):
                async with self._dialling:
                    if self._with_room() is None:
                        self._adopt(await self.dial(deadline, fresh=False))

    @contextmanager
    def _newcomer(self, fresh: bool) -> Iterator[None]:
        """Count one that asks for something new for as long as it waits for a connection."""
        self._dialer.newcomers += fresh
        try:
            yield
        finally:
            self._dialer.newcomers -= fresh

    def _with_room(self) -> Connection | None:
        return next((connection for connection in self._connections if connection.has_room), None)

    def _adopt(self, channel: Channel) -> None:
        connection = Connection(channel)
        self.greeting = channel.greeting
        self._connections.append(connection)
        self._tasks.start_soon(self._keep, connection)

    async def _keep(self, connection: Connection) -> None:
        try:
            await connection.run()
        finally:
            self._connections.remove(connection)

    def _require_open(self) -> None:
        if self._closed:
            raise _closed()


def _closed() -> InvalidSession:
    return InvalidSession("the client is closed", hint="connect anew")


def _unknown(method: str) -> DrmCommunication:
    return DrmCommunication(
        f"the connection was lost before {method} was answered, so it may have been done or not",
        hint="look before doing it again",
    )
