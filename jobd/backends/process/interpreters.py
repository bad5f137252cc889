"""What else the kernel opens to execute a program: a script's interpreter, a binary's loader (execve(2))."""

from __future__ import annotations

import struct

_HEAD = 4096
_ELF_64_LITTLE = b"\x7fELF\x02\x01"
_HEADER = 64
_PT_INTERP = 3
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")


def interpreter(program: bytes) -> bytes | None:
    """The path of a local program's interpreter, empty where it needs none; None where that can't be told. Blocking.

    Raises:
        OSError: it can't be read.
    """
    with open(program, "rb") as file:
        head = file.read(_HEAD)
    if head.startswith(b"#!"):
        words = head[2:].split(b"\n", 1)[0].split()
        return words[0] if words else None
    return _loader(head) if head.startswith(_ELF_64_LITTLE) else None


def _loader(head: bytes) -> bytes | None:
    """PT_INTERP of an ELF file (elf(5)); it lies in the first page wherever a linker puts it."""
    if len(head) < _HEADER:
        return None
    (offset,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
    if size != _PROGRAM_HEADER.size or offset + size * count > len(head):
        return None
    for number in range(count):
        kind, _, place, _, _, length, _, _ = _PROGRAM_HEADER.unpack_from(head, offset + number * size)
        if kind == _PT_INTERP:
            return head[place : place + length].rstrip(b"\0") if place + length <= len(head) else None
    return b""
