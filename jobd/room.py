"""Room on disk for new work: below a floor nothing new is taken or started, and what runs, runs on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import anyio

from jobd.model.errors import OutOfResource

_FRESH = 1.0
_SHARE = 0.05


class Room:
    """The free space of the state folder's volume, looked at when it matters, at most once a second.

    Args:
        folder: any folder on the volume.
        floor: bytes that must stay free; the smaller of this and 5 % of the volume counts.
    """

    def __init__(self, folder: Path, floor: Callable[[], int]) -> None:
        self._folder = folder
        self._floor = floor
        self._looked = float("-inf")
        self._short: str | None = None

    async def shortage(self) -> str | None:
        """Why there is no room for new work, in a sentence; None where there is."""
        if time.monotonic() - self._looked > _FRESH:
            self._short = await anyio.to_thread.run_sync(self._look)
            self._looked = time.monotonic()
        return self._short

    async def require(self) -> None:
        """Raise where there is no room for new work.

        Raises:
            OutOfResource: below the floor.
        """
        short = await self.shortage()
        if short is not None:
            raise OutOfResource(short, hint="free some space, reap finished jobs, or lower [storage] min_free")

    def _look(self) -> str | None:
        volume = os.statvfs(self._folder)
        free = volume.f_bavail * volume.f_frsize
        floor = min(self._floor(), int(volume.f_blocks * volume.f_frsize * _SHARE))
        if free >= floor:
            return None
        return f"only {free >> 20} MiB are free below {self._folder}, and {floor >> 20} MiB must stay free"
