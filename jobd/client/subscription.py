"""What goes on: a stream of notifications as an async iterator, which outlives the connection that carries it.

Each stream has a connection of its own, which its reader reads. So a slow reader makes nobody's memory grow: once the
socket is full the daemon waits, with a bound of its own, and nothing else of the client's is held up by it. On a shared
connection a reader that asks for something in its loop would wait for an answer behind its own unread notifications.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio

from jobd.client.link import Link
from jobd.client.transport import Channel, Disconnected, Patience
from jobd.client.wire import to_wire
from jobd.model.errors import JobdError
from jobd.protocol import messages

_REQUEST = 1

Item = TypeVar("Item")


class Subscription(AsyncIterator[Item]):
    """A stream. It begins when it is entered (``async with``), or with the first item that is asked for.

    One that is left early is closed by ``aclose``, by leaving its ``async with``, with the client, or when it is
    forgotten. An interrupted ``anext`` loses nothing: the next one goes on.
    """

    method: str

    def __init__(self, link: Link) -> None:
        self._link = link
        self._channel: Channel | None = None
        self._items: deque[Item] = deque()
        self._guard = anyio.ResourceGuard("iterating over")
        self._patience = Patience(link.patience)
        self._begun = False
        self._ended = False
        self._failure: JobdError | None = None
        link.watch(self)

    @abstractmethod
    def _params(self) -> dict[str, Any]:
        """The request that goes on from where the stream is."""

    @abstractmethod
    def _answered(self, result: dict[str, Any]) -> None:
        """The daemon's answer to it."""

    @abstractmethod
    def _take(self, method: str, params: dict[str, Any]) -> None:
        """A notification: append its items, move on; or ``_finish``."""

    def _finish(self, failure: JobdError | None = None) -> None:
        self._ended = True
        self._failure = failure

    async def __aenter__(self) -> Self:
        with self._guard:
            await self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def __anext__(self) -> Item:
        with self._guard:
            while not self._items and not self._ended:
                await self._fill()
        if self._items:
            return self._items.popleft()
        await self.aclose()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the stream. Closing twice is allowed."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.aclose()

    def __del__(self) -> None:
        # Left by a ``break``: its descriptor must not stay open until the client ends.
        channel = getattr(self, "_channel", None)
        if channel is not None:
            channel.abandon()

    async def _fill(self) -> None:
        """Read once; where the connection is lost, the next call makes another."""
        channel = await self._begin()
        if self._items or self._ended:
            return  # they came together with the answer
        try:
            received = await channel.receive()
        except Disconnected as error:
            await self.aclose()
            self._patience.lost(error)
            return
        self._take_all(received)

    async def _begin(self) -> Channel:
        """The connection that carries the stream now."""
        while self._channel is None:
            channel = await self._link.dial(self._patience.deadline, fresh=not self._begun)
            self._patience.connected()
            try:
                await self._subscribe(channel)
            except Disconnected as error:
                await channel.aclose()
                self._patience.lost(error)
            except BaseException:
                await channel.aclose()
                raise
            else:
                self._channel = channel
        return self._channel

    async def _subscribe(self, channel: Channel) -> None:
        await channel.send(messages.request(_REQUEST, self.method, to_wire(self._params())))
        answer, *rest = await channel.receive()
        self._answered(messages.outcome(answer))
        self._begun = True
        self._take_all(rest)

    def _take_all(self, received: list[dict[str, Any]]) -> None:
        for message in received:
            self._take(message.get("method", ""), message.get("params") or {})
