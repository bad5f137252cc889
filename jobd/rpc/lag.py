"""How late the event loop runs what is due: the measure of promise 8."""

from __future__ import annotations

import time

import anyio

_WINDOW = 60.0


class LoopLag:
    """The worst lateness in seconds of a timer within the last minute or two, measured while anything happens.

    An idle daemon must not wake up to measure itself, so each activity asks for one sample at most.
    """

    def __init__(self) -> None:
        self._wanted = anyio.Event()
        self._worst = 0.0
        self._before = 0.0
        self._turned = time.monotonic()

    def sample(self) -> None:
        """Ask for a measurement now."""
        self._wanted.set()

    @property
    def worst(self) -> float:
        """Seconds."""
        return max(self._worst, self._before)

    async def run(self, interval: float = 0.05) -> None:
        """Measure when asked, at most once an interval."""
        while True:
            await self._wanted.wait()
            due = time.monotonic() + interval
            await anyio.sleep(interval)
            self._wanted = anyio.Event()
            self._note(time.monotonic() - due)

    def _note(self, late: float) -> None:
        if time.monotonic() - self._turned > _WINDOW:
            self._before, self._worst, self._turned = self._worst, 0.0, time.monotonic()
        self._worst = max(self._worst, late)
