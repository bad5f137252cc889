"""Bounded reads from a file: a chunk from an offset, and where its last lines begin. Standard library only.

Blocking: called by threads for jobd's own files, by a process of its own for a user's.
"""

from __future__ import annotations

import errno
import os
import stat

CHUNK = 256 * 1024
_BLOCK = 64 * 1024


def read_chunk(path: bytes, offset: int) -> bytes:
    """Up to a chunk of a file from an offset; nothing where there is no file yet.

    Raises:
        OSError: it can't be read, or is no plain file.
    """
    descriptor = _open(path)
    if descriptor is None:
        return b""
    try:
        return os.pread(descriptor, CHUNK, offset)
    finally:
        os.close(descriptor)


def tail_offset(path: bytes, lines: int) -> int:
    """Where the last lines of a file begin, found backwards block by block, however long a line is.

    Raises:
        OSError: it can't be read, or is no plain file.
    """
    descriptor = _open(path)
    if descriptor is None:
        return 0
    try:
        return _backwards(descriptor, os.fstat(descriptor).st_size, lines)
    finally:
        os.close(descriptor)


def _open(path: bytes) -> int | None:
    """None where there is no file yet. What is read from a FIFO or a terminal would be missed by somebody else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.ESPIPE, "it is no plain file")


def _backwards(descriptor: int, end: int, lines: int) -> int:
    if lines == 0 or end == 0:
        return end
    # A newline at the very end closes the last line, it does not begin another.
    wanted = lines + 1 if os.pread(descriptor, 1, end - 1) == b"\n" else lines
    position = end
    while position > 0:
        start = max(0, position - _BLOCK)
        block = os.pread(descriptor, position - start, start)
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
