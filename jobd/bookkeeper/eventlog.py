"""Events as subscribers read them: the newest from memory, older ones from the store, by sequence number.

There is one ring for all, and a subscriber is a number: however slow, it holds nothing and nobody up (promise 5).
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import islice

import anyio
import msgspec

from jobd.model.job import Event

RING = 4096
PAGE = 512


class Truncated(msgspec.Struct, frozen=True):
    """Events were lost to retention: ``first`` is the oldest that is kept."""

    first: int


class EventLog:
    """What was published.

    Args:
        read: reads up to ``limit`` events after a sequence number, of one job or of all, from the store.
        first_kept: the oldest sequence number that retention has left.
        last: the newest sequence number so far.
    """

    def __init__(
        self,
        read: Callable[[int, int, int | None], Awaitable[Sequence[Event]]],
        first_kept: Callable[[], Awaitable[int]],
        last: int,
    ) -> None:
        self._read = read
        self._first_kept = first_kept
        self._ring: deque[Event] = deque(maxlen=RING)
        self.last = last
        self._more = anyio.Event()

    def publish(self, events: Sequence[Event]) -> None:
        """Append committed events, in order."""
        if events:
            self._ring.extend(events)
            self.last = events[-1].seq
            self._more.set()
            self._more = anyio.Event()

    async def follow(
        self, since: int | None, *, job: int | None = None, on: bool = True
    ) -> AsyncIterator[Event | Truncated]:
        """Events after ``since`` (None: from now), in order and without a gap; ``on``: also those to come.

        A number below the retention floor gets one ``Truncated`` first.
        """
        position = self.last if since is None else since
        while True:
            more = self._more
            while position < self.last:
                page, position = await self._page(position, job)
                for item in page:
                    if job is None or isinstance(item, Truncated) or item.job == job:
                        yield item
            if not on:
                return
            await more.wait()

    async def _page(self, position: int, job: int | None) -> tuple[Sequence[Event | Truncated], int]:
        """The next events after ``position``, and the number that they reach to."""
        if self._ring and position + 1 >= self._ring[0].seq:
            start = position + 1 - self._ring[0].seq
            page = list(islice(self._ring, start, start + PAGE))
            return page, page[-1].seq
        first = await self._first_kept()
        if position + 1 < first:
            return [Truncated(first)], first - 1
        last = self.last
        rows = await self._read(position, PAGE, job)
        return rows, rows[-1].seq if len(rows) == PAGE else last
