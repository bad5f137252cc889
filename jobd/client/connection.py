"""Requests side by side over one connection: each waits for its own answer, and any can be cancelled alone."""

from __future__ import annotations

import itertools
from typing import Any

import anyio

from jobd.client.transport import Channel, Disconnected
from jobd.model.errors import FrameTooLong, JobdError
from jobd.protocol import messages
from jobd.protocol.frames import MAX_FRAME

_MOST_REQUESTS = 1000
"""A little under what the daemon runs side by side for one connection."""


class _Call:
    """A request that was sent: its answer, or why there is none."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.message: dict[str, Any] | None = None
        self.failure: JobdError | None = None


class Connection:
    """One connection for requests that have one answer.

    Lines are written by a task of the connection's own: were they written by the callers, a cancelled one could leave
    half a line behind, which would spoil the connection for all. What waits to be written is bounded by its callers,
    who each wait for an answer.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._numbers = itertools.count(1)
        self._calls: dict[int, _Call] = {}
        self._lines: list[bytes] = []
        self._filled = anyio.Event()
        self._scope = anyio.CancelScope()
        self._ended = False

    @property
    def has_room(self) -> bool:
        """Whether it lives and takes another request."""
        return not self._ended and len(self._calls) < _MOST_REQUESTS

    async def run(self) -> None:
        """Write and read until the connection ends or is closed; then every request still out fails."""
        failure: JobdError = Disconnected("the connection to the daemon was closed")
        try:
            with self._scope:
                failure = await self._exchange()
        finally:
            self._ended = True
            for call in self._calls.values():
                call.failure = failure
                call.done.set()
            await self._channel.aclose()

    def close(self) -> None:
        """End it: ``run`` returns."""
        self._ended = True
        self._scope.cancel()

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        """Ask and wait for the answer. If the caller is cancelled, the request is; the others are not touched.

        Raises:
            Disconnected: the connection ended first.
            FrameTooLong: the request is longer than the daemon takes.
            JobdError: whatever the daemon answers.
        """
        number = next(self._numbers)
        line = messages.request(number, method, params)
        if len(line) > MAX_FRAME:
            raise FrameTooLong(f"a request may be {MAX_FRAME} bytes long", hint="split it into several")
        call = self._calls[number] = _Call()
        self._put(line)
        try:
            await call.done.wait()
        finally:
            del self._calls[number]
            if not call.done.is_set():
                self._put(messages.cancel(number))
        if call.message is None:
            raise call.failure or Disconnected("the connection to the daemon was closed")
        return messages.outcome(call.message)

    def _put(self, line: bytes) -> None:
        self._lines.append(line)
        self._filled.set()

    async def _exchange(self) -> JobdError:
        """Serve both directions; why it ended."""
        failure: JobdError = Disconnected("the connection to the daemon was lost")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write)
            try:
                await self._read()
            except JobdError as error:
                failure = error
            tasks.cancel_scope.cancel()
        return failure

    async def _write(self) -> None:
        while True:
            await self._filled.wait()
            self._filled = anyio.Event()
            lines, self._lines = self._lines, []
            try:
                await self._channel.send(b"".join(lines))
            except Disconnected:
                return  # the reader sees it, too, after the answers that had come before

    async def _read(self) -> None:
        while True:
            for message in await self._channel.receive():
                if message.get("id") is None:
                    # The daemon could not read a line, so it can't say whose it was.
                    messages.outcome(message)
                    continue
                call = self._calls.get(message["id"])
                if call is not None:
                    call.message = message
                    call.done.set()
