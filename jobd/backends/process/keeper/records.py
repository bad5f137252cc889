"""What the keeper says: one JSON object a line, formatted once, journalled and sent as the same bytes.

Tokens are ASCII without anything that JSON would escape; texts are escaped by ``json``.
"""

from __future__ import annotations

import base64
import json

VERSION = 1


def header(pid: int, tick: int, boot_id: str) -> bytes:
    """The first line of a journal: which keeper, in which boot of the machine, wrote it."""
    return b'{"k":"keeper","protocol":%d,"pid":%d,"tick":%d,"boot":"%s"}\n' % (
        VERSION,
        pid,
        tick,
        boot_id.encode(),
    )


def hello(pid: int, boot_id: str, generation: int) -> bytes:
    """The answer to a daemon's hello."""
    values = (VERSION, pid, boot_id.encode(), generation)
    return b'{"k":"hello","protocol":%d,"pid":%d,"boot":"%s","generation":%d}\n' % values


SYNCED = b'{"k":"synced"}\n'


def simple(kind: bytes, token: bytes) -> bytes:
    """A record with nothing but its token: granted, starting, executed, stopped, continued, freed, revoked."""
    return b'{"k":"%s","t":"%s"}\n' % (kind, token)


def started(token: bytes, pid: int, low: int, high: int, at: float, boot: float, executed: bool) -> bytes:
    """A process was started; its start tick lies between ``low`` and ``high``."""
    values = (token, pid, low, high, at, boot, b"true" if executed else b"false")
    return b'{"k":"started","t":"%s","pid":%d,"lo":%d,"hi":%d,"at":%.6f,"boot":%.6f,"x":%s}\n' % values


def cause(token: bytes, why: str) -> bytes:
    """Why it is about to be ended: on record before the first signal."""
    return b'{"k":"cause","t":"%s","cause":"%s"}\n' % (token, why.encode())


def ended(token: bytes, pid: int, how: bytes, times: tuple[float, float], usage: bytes, freed: bool) -> bytes:
    """The leader's end: ``times`` are the wall clock and the seconds from start to end."""
    values = (token, pid, how, times[0], times[1], usage, b"true" if freed else b"false")
    return b'{"k":"ended","t":"%s","pid":%d,%s,"at":%.6f,"wall":%.6f,%s,"freed":%s}\n' % values


def refused(token: bytes, code: str, text: str) -> bytes:
    """It could not be started now; it is forgotten, and may be granted again."""
    return _line({"k": "refused", "t": token.decode(), "errno": code, "text": text})


def answer(number: int, **values: object) -> bytes:
    """The answer to a request."""
    return _line({"k": "answer", "id": number, **values})


def _line(value: dict[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def text(value: str | dict[str, str] | bytes) -> bytes:
    """The bytes of a string of the operating system."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return value if isinstance(value, bytes) else base64.b64decode(value["b64"])
