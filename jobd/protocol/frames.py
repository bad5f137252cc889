"""Lines in, lines out: how messages are cut from a stream of bytes."""

from __future__ import annotations

from jobd.model.errors import FrameTooLong

MAX_FRAME = 64 * 1024 * 1024
"""The longest message in bytes that either side takes: room for tens of thousands of templates in one submit."""

MAX_GREETING = 64 * 1024
"""The longest first message (``hello``): a stranger can't make the daemon hold more."""


class LineBuffer:
    """Cuts a stream into lines. Bytes of an unfinished line are kept, up to a limit.

    Args:
        limit: the longest line.
        first: the longest first line, where a stranger is not to have as much.
    """

    def __init__(self, limit: int = MAX_FRAME, first: int | None = None) -> None:
        self._limit = limit
        self._first = first
        self._rest = bytearray()
        self._searched = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that ``data`` completes, without their newlines.

        Raises:
            FrameTooLong: a line is longer than the limit; what was fed is lost.
        """
        self._rest += data
        # Searching only what is new keeps a long line that comes in small pieces linear.
        cut = self._rest.rfind(b"\n", self._searched)
        if cut < 0:
            self._searched = len(self._rest)
            self._check(len(self._rest), self._first or self._limit)
            return []
        lines = bytes(self._rest[:cut]).split(b"\n")
        del self._rest[: cut + 1]
        self._searched = len(self._rest)
        if self._first is not None:
            self._check(len(lines[0]), self._first)
            self._first = None
        self._check(max(len(self._rest), *map(len, lines)), self._limit)
        return lines

    def _check(self, length: int, limit: int) -> None:
        if length > limit:
            self._rest.clear()
            self._searched = 0
            raise FrameTooLong(f"a message may be {limit} bytes long", hint="split it into several requests")
