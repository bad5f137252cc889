"""The daemon's listening socket: handed over by systemd or bound here, and bound again where its path is lost."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType

import structlog
from anyio.abc import SocketListener, TaskGroup

from jobd import paths
from jobd.inotify import VANISHED, Inotify
from jobd.model.errors import DrmCommunication
from jobd.rpc.server import Server, bind

_log = structlog.get_logger(__name__)

_FIRST_INHERITED = 3
_OWN, _SHARED = 0o600, 0o660


def inherited_sockets(environ: Mapping[str, str]) -> list[socket.socket]:
    """The listening sockets that systemd handed over (sd_listen_fds(3)); none where they are meant for another pid."""
    if environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = int(environ.get("LISTEN_FDS", "0"))
    found = [socket.socket(fileno=_FIRST_INHERITED + number) for number in range(count)]
    for one in found:
        one.set_inheritable(False)
        one.setblocking(False)
    return found


class Listening:
    """Serves clients on the socket at ``path``.

    Args:
        path: where the socket lies.
        inherited: sockets that are listening already; where there are any, none is bound here.
        shared: whether other users may connect (the system daemon).
    """

    def __init__(
        self,
        path: Path,
        server: Server,
        tasks: TaskGroup,
        inherited: list[socket.socket],
        inotify: Inotify,
        *,
        shared: bool,
    ) -> None:
        self.path = path
        self._server = server
        self._tasks = tasks
        self._inherited = inherited
        self._inotify = inotify
        self._mode = _SHARED if shared else _OWN
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Listening:
        """Begin to listen.

        Raises:
            DrmCommunication: the socket can't be bound.
        """
        for raw in self._inherited or [self._bind()]:
            await self._serve(raw)
        return self

    def _bind(self) -> socket.socket:
        paths.ensure_private_folder(self.path.parent, 0o755 if self._mode == _SHARED else 0o700)
        try:
            return bind(self.path, self._mode)
        except OSError as error:
            hint = "choose another place with --socket or --state-dir"
            raise DrmCommunication(f"the socket {self.path} can't be made: {error.strerror}", hint=hint) from error

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; the path goes with it, except where it is systemd's."""
        await self._stack.aclose()
        if not self._inherited:
            self.path.unlink(missing_ok=True)

    async def _serve(self, raw: socket.socket) -> None:
        listener = await SocketListener.from_socket(raw)
        await self._stack.enter_async_context(listener)
        self._tasks.start_soon(self._server.serve, listener, self._tasks)

    async def watch(self) -> None:
        """Bind again whenever the path is lost: whoever cleans up in the wrong place must not cut everybody off."""
        if self._inherited:
            return
        with self._inotify.watching(self.path.parent, VANISHED) as watch:
            while True:
                await watch.wait()
                if not self.path.is_socket():
                    _log.warning("the socket was gone and is bound again", socket=os.fspath(self.path))
                    await self._serve(bind(self.path, self._mode))
