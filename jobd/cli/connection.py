"""A small blocking connection for commands, over the same protocol as the async client's."""

from __future__ import annotations

import os
import socket
import time

from jobd import paths
from jobd.cli.failing import note
from jobd.model.errors import DeniedByDrms, DrmCommunication
from jobd.protocol import messages
from jobd.protocol.frames import LineBuffer

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    T = TypeVar("T")

PATIENCE = 5.0
LONG_PATIENCE = 60.0
_START_PATIENCE = 15.0
_CHUNK = 1 << 18
_PAUSE = 0.02
_LONGEST_PAUSE = 0.5


class Lost(Exception):
    """The connection was refused or cut; it may be tried again."""


class Connection:
    """One connection to the daemon, after its hello."""

    def __init__(self, place: paths.Place) -> None:
        self._channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._lines = LineBuffer()
        self._ready: list[bytes] = []
        self._number = 0
        try:
            with paths.socket_address(place.socket) as address:
                self._channel.connect(address)
            messages.check_hello(self.result_of(self.send("hello", messages.hello_params("jobd"))))
        except BaseException:
            self._channel.close()
            raise

    def close(self) -> None:
        """Hang up."""
        self._channel.close()

    def fileno(self) -> int:
        """For select(2)."""
        return self._channel.fileno()

    def send(self, method: str, params: dict[str, Any]) -> int:
        """Send a request; its number."""
        self._number += 1
        try:
            self._channel.sendall(messages.request(self._number, method, params))
        except OSError as error:
            raise Lost from error
        return self._number

    def receive(self) -> dict[str, Any]:
        """The next message.

        Raises:
            Lost: the daemon hung up.
        """
        while not self._ready:
            try:
                data = self._channel.recv(_CHUNK)
            except OSError as error:
                raise Lost from error
            if not data:
                raise Lost
            self._ready = self._lines.feed(data)[::-1]
        return messages.parse(self._ready.pop())

    @property
    def pending(self) -> bool:
        """Whether a message is there without asking the kernel."""
        return bool(self._ready)

    def result_of(self, number: int) -> Any:
        """The result of a request.

        Raises:
            JobdError: its error.
            Lost: the daemon hung up.
        """
        while True:
            message = self.receive()
            if "method" not in message and message.get("id") in (number, None):
                return messages.outcome(message)

    def stream(self, number: int) -> Iterator[dict[str, Any]]:
        """The notifications of a request, after its answer, without end.

        Raises:
            Lost: the daemon hung up.
        """
        while True:
            message = self.receive()
            if "method" in message and message["params"].get("id") == number:
                yield message


class Daemon:
    """The way to the daemon: finds it, starts it where that is allowed, and tries again where it is just away."""

    def __init__(self, options: argparse.Namespace, *, autostart: bool = True) -> None:
        self.place = paths.find(os.environ, options.socket)
        forbidden = options.no_autostart or os.environ.get("JOBD_NO_AUTOSTART", "") not in ("", "0")
        self._autostart = autostart and self.place.autostart and not forbidden
        self._started = False

    def connect(self, patience: float = PATIENCE, *, again: bool = False) -> Connection:
        """A connection.

        ``again``: there was one before. Then none is started, which would undo a ``jobd shutdown``, and a socket that
        is not there is waited for.

        Raises:
            DrmCommunication: nobody answers.
            DeniedByDrms: the socket is not for this user.
        """
        until = time.monotonic() + patience
        pause = _PAUSE
        while True:
            try:
                return Connection(self.place)
            except PermissionError as error:
                raise DeniedByDrms(
                    f"{self.place.socket} may not be used by you", hint=_permission_hint(self.place)
                ) from error
            except (Lost, OSError) as error:
                if again:
                    pass
                elif self._autostart and isinstance(error, FileNotFoundError | ConnectionRefusedError):
                    self._start()
                    until = max(until, time.monotonic() + _START_PATIENCE)
                elif isinstance(error, FileNotFoundError) and not self._started:
                    raise self.unreachable("there is no daemon") from error
                if time.monotonic() > until:
                    raise self.unreachable("nobody answers") from error
            time.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 1.5)

    def _start(self) -> None:
        from jobd.autostart import start

        start(self.place)
        self._autostart, self._started = False, True

    def unreachable(self, why: str) -> DrmCommunication:
        """The error for a daemon that can't be reached."""
        hint = "start it with jobd serve" if not self.place.system else "systemctl status jobd tells more"
        return DrmCommunication(f"{why} at {self.place.socket}", hint=hint)

    def request(self, method: str, params: dict[str, Any], *, patience: float = PATIENCE) -> Any:
        """Send a request and return its result; sent again where the connection is cut, so it must bear a repeat.

        Raises:
            JobdError: its error, or nobody answers.
        """
        until: float | None = None
        while True:
            connection = self.connect(patience)
            try:
                return connection.result_of(connection.send(method, params))
            except Lost as error:
                until = until or time.monotonic() + patience
                if time.monotonic() > until:
                    raise self.unreachable("the daemon hung up") from error
                time.sleep(_PAUSE)
            finally:
                connection.close()

    def through_restarts(self, work: Callable[[Connection], T], patience: float = LONG_PATIENCE) -> T:
        """Do something that takes long; where the daemon goes away, again once it is back.

        ``work`` goes on where it was, by what it remembers.

        Raises:
            DrmCommunication: the daemon does not come back in time.
        """
        connection = self.connect()
        while True:
            began = time.monotonic()
            try:
                return work(connection)
            except Lost:
                note("the daemon is away; waiting for it to come back")
            finally:
                connection.close()
            if time.monotonic() - began < _PAUSE:
                time.sleep(_LONGEST_PAUSE)
            connection = self.connect(patience, again=True)


def _permission_hint(place: paths.Place) -> str:
    return "ask the operator to let you into its group" if place.system else "it belongs to another user"
