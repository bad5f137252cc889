"""What is done now and then: retention of finished jobs, in bounded steps, off the hot path."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import anyio
import structlog

from jobd.backends.base import Backend
from jobd.bookkeeper import Bookkeeper
from jobd.config import RetentionSection

_log = structlog.get_logger(__name__)

_INTERVAL = 3600.0


class Housekeeping:
    """Applies ``[retention]`` once an hour."""

    def __init__(
        self, bookkeeper: Bookkeeper, backends: Mapping[str, Backend], retention: Callable[[], RetentionSection]
    ) -> None:
        self._bookkeeper = bookkeeper
        self._backends = backends
        self._retention = retention

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            await self.once()
            await anyio.sleep(_INTERVAL)

    async def once(self) -> None:
        """Delete what is past its time, step by step, so that commits pass in between."""
