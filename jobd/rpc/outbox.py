"""What waits to be written to one client: bounded, so that a client that does not read holds up only itself."""

from __future__ import annotations

import anyio
from anyio.abc import SocketStream

BOUND = 1024 * 1024


class Outbox:
    """Lines for one connection. ``send`` waits while more than ``BOUND`` bytes are not yet written."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._lines: list[bytes] = []
        self._size = 0
        self._filled = anyio.Event()
        self._drained = anyio.Event()
        self._closing = False

    async def send(self, line: bytes) -> None:
        """Queue a line; wait first while the client lags behind."""
        while self._size > BOUND:
            await self._drained.wait()
        self._lines.append(line)
        self._size += len(line)
        self._filled.set()

    async def flush(self) -> None:
        """Wait until all that was queued is written."""
        while self._size:
            await self._drained.wait()

    def close(self) -> None:
        """Nothing follows: ``run`` returns once all is written."""
        self._closing = True
        self._filled.set()

    async def run(self) -> None:
        """Write until closed; all lines that wait go in one write."""
        while self._lines or not self._closing:
            await self._filled.wait()
            self._filled = anyio.Event()
            lines, self._lines = self._lines, []
            await self._stream.send(b"".join(lines))
            self._size -= sum(map(len, lines))
            self._drained.set()
            self._drained = anyio.Event()
