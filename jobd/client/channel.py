"""One connection to the daemon, after its hello: messages out, messages in."""

from __future__ import annotations

from typing import Any

import anyio
from anyio.abc import SocketStream

from jobd.model.errors import DeniedByDrms
from jobd.paths import Place, socket_address
from jobd.protocol import messages
from jobd.protocol.frames import LineBuffer

_CHUNK = 1 << 18
_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class Lost(Exception):
    """The connection was refused or cut; it may be tried again."""


class Channel:
    """Made by ``Channel.open``; to be closed by whoever opened it."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._lines = LineBuffer()
        self._ready: list[bytes] = []
        self._number = 0
        self._sending = anyio.Lock()

    @staticmethod
    async def open(place: Place, program: str) -> Channel:
        """Connect and say hello.

        Raises:
            Lost: nobody listens.
            DeniedByDrms: the socket is not for this user.
            ProtocolMismatch: client and daemon don't understand each other.
        """
        try:
            with socket_address(place.socket) as address:
                channel = Channel(await anyio.connect_unix(address))
        except PermissionError as error:
            raise DeniedByDrms(f"{place.socket} may not be used by you") from error
        except OSError as error:
            raise Lost from error
        try:
            await channel._greet(program)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await channel.aclose()
            raise
        return channel

    async def _greet(self, program: str) -> None:
        number = await self.send("hello", messages.hello_params(program))
        while (message := await self.receive()).get("id") != number:
            continue
        messages.check_hello(messages.outcome(message))

    async def aclose(self) -> None:
        """Hang up."""
        await self._stream.aclose()

    def next_number(self) -> int:
        """A number for a request."""
        self._number += 1
        return self._number

    async def send(self, method: str, params: dict[str, Any], number: int | None = None) -> int:
        """Send a request; its number.

        Raises:
            Lost: the daemon hung up.
        """
        number = self.next_number() if number is None else number
        await self._write(messages.request(number, method, params))
        return number

    async def cancel(self, number: int) -> None:
        """Tell the daemon that a request's answer is not wanted any more.

        Raises:
            Lost: the daemon hung up.
        """
        await self._write(messages.notification("cancel", {"id": number}))

    async def _write(self, line: bytes) -> None:
        try:
            # Two tasks may send at once; a message must not be cut by another, nor by its sender's cancellation.
            async with self._sending:
                with anyio.CancelScope(shield=True):
                    await self._stream.send(line)
        except _GONE as error:
            raise Lost from error

    async def receive(self) -> dict[str, Any]:
        """The next message.

        Raises:
            Lost: the daemon hung up.
        """
        while not self._ready:
            try:
                self._ready = self._lines.feed(await self._stream.receive(_CHUNK))[::-1]
            except _GONE as error:
                raise Lost from error
        return messages.parse(self._ready.pop())
