"""When starting anything is no use: processes, descriptors or disk space have run out. Waits, then tries again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import structlog

from jobd.scheduler.fifo import Scheduler

_log = structlog.get_logger(__name__)

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0


class Gate:
    """Pauses the scheduler after a refused start, longer each time, until starts go well again.

    Args:
        scheduler: what is paused.
        shortage: why there is no room on disk, None where there is.
        wake: has the scheduler asked again.
    """

    def __init__(
        self, scheduler: Scheduler, shortage: Callable[[], Awaitable[str | None]], wake: Callable[[], None]
    ) -> None:
        self._scheduler = scheduler
        self._shortage = shortage
        self._wake = wake
        self._refused = anyio.Event()
        self._reason = ""

    def refused(self, reason: str) -> None:
        """A start came back, or a commit found no room."""
        self._reason = reason
        if self._scheduler.paused is None:
            self._scheduler.paused = reason
        self._refused.set()

    async def run(self) -> None:
        """Serve until cancelled; sleeps only while something is short."""
        while True:
            await self._refused.wait()
            await self._recover()

    async def _recover(self) -> None:
        pause = _FIRST_PAUSE
        while self._refused.is_set():
            self._refused = anyio.Event()
            _log.warning("no new work is started", reason=self._reason, retry_after=pause)
            await anyio.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)
            short = await self._shortage()
            if short is not None:
                self._scheduler.paused = short
                self._refused.set()
                continue
            self._scheduler.paused = None
            self._wake()
            # Whether the next start goes well is known within the pause: a refusal sets the event again.
            with anyio.move_on_after(_FIRST_PAUSE):
                await self._refused.wait()
