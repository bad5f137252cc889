"""The listening socket: where it is, who may connect, and what happens when descriptors run out."""

from __future__ import annotations

import errno
import os
import pwd
import socket
import stat
import struct
from pathlib import Path

import anyio
import structlog
from anyio.abc import SocketAttribute, SocketListener, SocketStream, TaskGroup

from jobd import paths
from jobd.model.job import Owner
from jobd.rpc.connection import Connection
from jobd.rpc.context import Context
from jobd.rpc.dispatch import Method

_log = structlog.get_logger(__name__)

_BACKLOG = 1024
_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_LONGEST_PAUSE = 1.0


def bind(path: Path, mode: int) -> socket.socket:
    """A listening socket at ``path``; what stood there is replaced, so only the holder of the state's lock may call it.

    Raises:
        OSError: the folder can't be written.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with paths.socket_address(path) as address:
            path.unlink(missing_ok=True)
            listener.bind(address)
            os.chmod(path, mode)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


class Server:
    """Accepts clients on a socket."""

    def __init__(self, context: Context, methods: dict[str, Method]) -> None:
        self._context = context
        self._methods = methods
        self._names: dict[int, str] = {}

    async def serve(self, listener: SocketListener, tasks: TaskGroup) -> None:
        """Accept until cancelled. Where descriptors run out, it waits for one instead of spinning."""
        pause = 0.01
        while True:
            try:
                stream = await listener.accept()
            except anyio.BrokenResourceError as error:
                # What anyio makes of any OSError; the listener is as good as before.
                number = getattr(error.__cause__, "errno", None)
                if number not in _SHORT:
                    raise
                _log.warning("can't accept clients", error=os.strerror(number), retry_after=pause)
                await anyio.sleep(pause)
                pause = min(_LONGEST_PAUSE, pause * 2)
                continue
            pause = 0.01
            tasks.start_soon(self._client, stream)

    async def _client(self, stream: SocketStream) -> None:
        uid = peer_uid(stream)
        try:
            await Connection(stream, uid, self._owner(uid), self._context, self._methods).run()
        except Exception:  # noqa: BLE001 (a fault met while serving one client must not end the daemon: it is logged)
            _log.exception("a client was dropped", uid=uid)

    def _owner(self, uid: int) -> Owner:
        own = os.getuid()
        return self._named(uid if own == 0 else own)

    def _named(self, uid: int) -> Owner:
        if uid not in self._names:
            self._names[uid] = user_name(uid)
        return Owner(uid, self._names[uid])


def peer_uid(stream: SocketStream) -> int:
    """Who connected, as the kernel knows it (SO_PEERCRED, unix(7))."""
    raw = stream.extra(SocketAttribute.raw_socket)
    data = raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid: int = struct.unpack("3i", data)[1]
    return uid


def user_name(uid: int) -> str:
    """The login name of a uid, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def is_socket(path: Path) -> bool:
    """Whether a socket lies at a path."""
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False
