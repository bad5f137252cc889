"""Changes in folders and files, pushed by the kernel (inotify(7)): one descriptor for everything that is followed."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

MODIFIED = 0x00000002
APPEARED = 0x00000100 | 0x00000080
VANISHED = 0x00000200 | 0x00000040 | 0x00000400 | 0x00000800
_OVERFLOW = 0x00004000
_HEADER = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class Watch:
    """Tells that something changed since it was last asked."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def changed(self) -> None:
        """Something did."""
        self._event.set()

    async def wait(self) -> None:
        """Wait for a change since the last call."""
        await self._event.wait()
        self._event = anyio.Event()


class Inotify:
    """Watches paths and wakes those who wait for a change there."""

    def __init__(self) -> None:
        self._descriptor = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1")
        self._watches: dict[int, list[Watch]] = {}

    def close(self) -> None:
        """Let the descriptor go."""
        os.close(self._descriptor)

    @contextmanager
    def watching(self, path: Path, mask: int) -> Iterator[Watch]:
        """Watch a path as long as the context lasts.

        Raises:
            OSError: there is nothing at the path, or no watch is left.
        """
        number = _checked(
            _libc.inotify_add_watch(self._descriptor, os.fsencode(path), ctypes.c_uint32(mask)), str(path)
        )
        watch = Watch()
        watches = self._watches.setdefault(number, [])
        watches.append(watch)
        try:
            yield watch
        finally:
            watches.remove(watch)
            if not watches:
                del self._watches[number]
                _libc.inotify_rm_watch(self._descriptor, number)

    async def run(self) -> None:
        """Pass changes on until cancelled."""
        while True:
            await anyio.wait_readable(self._descriptor)
            for number in self._read():
                for watch in self._watches.get(number, ()):
                    watch.changed()

    def _read(self) -> set[int]:
        """The numbers of the watches that something happened to."""
        try:
            data = os.read(self._descriptor, 64 * 1024)
        except BlockingIOError:
            return set()
        numbers, position = set(), 0
        while position < len(data):
            number, mask, _, length = _HEADER.unpack_from(data, position)
            # An overflow loses events: everybody looks again.
            numbers |= set(self._watches) if mask & _OVERFLOW else {number}
            position += _HEADER.size + length
        return numbers


def _checked(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)
    return result
