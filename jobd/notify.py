"""What systemd is told (sd_notify(3)): readiness, status, and that the event loop is alive."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import anyio


class Notifier:
    """Sends to the socket that the service manager named; does nothing where there is none.

    Args:
        environ: NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID are read from it.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        mine = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._period = int(environ.get("WATCHDOG_USEC", "0")) / 1e6 if mine else 0.0

    def send(self, state: str) -> None:
        """One datagram, for example ``READY=1``. That nobody listens is no error."""
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            try:
                channel.sendto(state.encode(), self._address)
            except OSError:
                return

    async def watchdog(self) -> None:
        """Tell twice a period, from the event loop, so that a stuck loop is noticed."""
        while self._address and self._period:
            self.send("WATCHDOG=1")
            await anyio.sleep(self._period / 2)
