"""The daemon's connection: one at a time, the one with the highest generation."""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import time

from jobd.backends.process.keeper import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_CREDENTIALS = struct.Struct("3i")
_CHUNK = 1 << 18
_BACKLOG = 16 << 20
FIRST_DAEMON = 30.0


class _Connection:
    __slots__ = ("channel", "generation", "incoming", "outgoing")

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.generation = -1
        self.incoming = b""
        self.outgoing = bytearray()


class Daemons:
    """Accepts daemons and keeps the newest: a lower generation than any before is refused, a higher one takes over.

    Args:
        listener: the keeper's socket.
        poller: where connections are watched.
        serve: takes the messages of the daemon that counts.
    """

    def __init__(
        self,
        listener: socket.socket,
        poller: select.poll,
        serve: Callable[[dict[str, Any]], None],
        boot_id: str,
        pid: int,
    ) -> None:
        self.listener = listener
        self._poller = poller
        self._serve = serve
        self._boot_id = boot_id
        self._pid = pid
        self._highest = 0
        self._all: dict[int, _Connection] = {}
        self._current: _Connection | None = None
        self._patient_until = time.monotonic() + FIRST_DAEMON
        poller.register(listener, select.POLLIN)

    @property
    def connected(self) -> bool:
        """Whether a daemon is there."""
        return self._current is not None

    @property
    def expected(self) -> bool:
        """Whether a daemon is there, or the one that started this keeper may still come."""
        return bool(self._all) or (not self._highest and time.monotonic() < self._patient_until)

    def happened(self, descriptor: int, event: int) -> None:
        """Something happened on the listener or on a connection."""
        if descriptor == self.listener.fileno():
            self._accept()
            return
        connection = self._all.get(descriptor)
        if connection is None:
            return
        if event & select.POLLOUT:
            self._flush(connection)
        if event & ~select.POLLOUT and descriptor in self._all:
            self._receive(connection)

    def send(self, data: bytes) -> None:
        """To the daemon that counts; one that does not read for long is cut off, and told all when it comes again."""
        connection = self._current
        if connection is None:
            return
        connection.outgoing += data
        if len(connection.outgoing) > _BACKLOG:
            self._drop(connection)
        else:
            self._flush(connection)

    def _accept(self) -> None:
        try:
            channel, _ = self.listener.accept()
        except OSError:
            return
        channel.setblocking(False)
        uid = _CREDENTIALS.unpack(channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[1]
        if uid not in (0, os.getuid()):
            channel.close()
            return
        self._all[channel.fileno()] = _Connection(channel)
        self._poller.register(channel, select.POLLIN)

    def _receive(self, connection: _Connection) -> None:
        try:
            data = connection.channel.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(connection)
            return
        *lines, connection.incoming = (connection.incoming + data).split(b"\n")
        for line in lines:
            if connection.channel.fileno() >= 0 and line:
                self._take(connection, json.loads(line))

    def _take(self, connection: _Connection, message: dict[str, Any]) -> None:
        if message["op"] == "hello":
            self._greet(connection, message)
        elif connection is not self._current:
            self._drop(connection)
            return
        self._serve(message) if connection is self._current else None

    def _greet(self, connection: _Connection, message: dict[str, Any]) -> None:
        """A daemon that was stopped and goes on finds itself outranked, and harms nothing."""
        generation = message["generation"]
        if generation < self._highest:
            self._drop(connection)
            return
        self._highest = generation
        for other in list(self._all.values()):
            if other is not connection and other.generation >= 0:
                self._drop(other)
        connection.generation = generation
        self._current = connection
        self.send(records.hello(self._pid, self._boot_id, generation))

    def _flush(self, connection: _Connection) -> None:
        try:
            while connection.outgoing:
                del connection.outgoing[: connection.channel.send(connection.outgoing)]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(connection)
            return
        events = select.POLLIN | select.POLLOUT if connection.outgoing else select.POLLIN
        self._poller.modify(connection.channel, events)

    def _drop(self, connection: _Connection) -> None:
        descriptor = connection.channel.fileno()
        if descriptor < 0:
            return
        self._poller.unregister(descriptor)
        del self._all[descriptor]
        connection.channel.close()
        if self._current is connection:
            self._current = None
