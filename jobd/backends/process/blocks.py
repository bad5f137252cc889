"""Bounded reads from a file: a chunk from an offset, and where its last lines begin. Standard library, blocking."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK = 256 * 1024
_BLOCK = 64 * 1024


def read_chunk(path: bytes, offset: int) -> bytes:
    """Up to a chunk of a file from an offset; nothing where there is no file yet. Blocking."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(descriptor, CHUNK, offset)
    finally:
        os.close(descriptor)


def tail_offset(path: bytes, lines: int) -> int:
    """Where the last lines of a file begin, found backwards block by block, however long a line is. Blocking."""
    try:
        with open(path, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            return _backwards(file.seek, file.read, end, lines)
    except FileNotFoundError:
        return 0


def _backwards(seek: Callable[[int], int], read: Callable[[int], bytes], end: int, lines: int) -> int:
    if lines == 0 or end == 0:
        return end
    seek(end - 1)
    # A newline at the very end closes the last line, it does not begin another.
    wanted = lines + 1 if read(1) == b"\n" else lines
    position = end
    while position > 0:
        start = max(0, position - _BLOCK)
        seek(start)
        block = read(position - start)
        count = block.count(b"\n")
        if count >= wanted:
            return start + _nth_last(block, wanted) + 1
        wanted -= count
        position = start
    return 0


def _nth_last(block: bytes, count: int) -> int:
    position = len(block)
    for _ in range(count):
        position = block.rindex(b"\n", 0, position)
    return position
