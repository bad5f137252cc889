"""What is done now and then: retention of finished jobs, in bounded steps, off the hot path."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import anyio
import structlog

from jobd.backends.base import Backend
from jobd.bookkeeper import Bookkeeper
from jobd.bookkeeper.commands import Reap
from jobd.config import RetentionSection
from jobd.model.errors import JobdError
from jobd.model.ids import JobId
from jobd.rpc.capture import drop_stored_input

_log = structlog.get_logger(__name__)

_INTERVAL = 3600.0
_REPEATABLE = 7 * 86400.0
"""Seconds that a request id is remembered beyond the age at which its jobs are forgotten."""


class Housekeeping:
    """Applies ``[retention]`` once an hour."""

    def __init__(
        self,
        bookkeeper: Bookkeeper,
        backends: Mapping[str, Backend],
        retention: Callable[[], RetentionSection],
        state_dir: Path,
    ) -> None:
        self._bookkeeper = bookkeeper
        self._backends = backends
        self._retention = retention
        self._state_dir = state_dir

    async def run(self) -> None:
        """Serve until cancelled. What can't be done now is done an hour later."""
        while True:
            try:
                await self.once()
            except JobdError as error:
                _log.warning("retention was not applied", error=error.message)
            await anyio.sleep(_INTERVAL)

    async def once(self) -> None:
        """Delete what is past its time, step by step, so that commits pass in between."""
        store, wanted = self._bookkeeper.store, self._retention()
        before = None if wanted.finished is None else time.time() - wanted.finished
        while ids := await store.expired(before, wanted.count):
            await self._forget(ids)
        while await store.trim_events():
            continue
        while before is not None and await store.trim_requests(before - _REPEATABLE):
            continue

    async def _forget(self, ids: list[int]) -> None:
        """Their rows in one commit; then, job by job, what lies in files."""
        found = [record for id in ids if (record := await self._bookkeeper.store.find(id)) is not None]
        await self._bookkeeper.ask(Reap(ids))
        for job, _ in found:
            await self._backends[job.backend].forget([JobId(job.id)])
            await drop_stored_input(self._state_dir, job.template)
        _log.info("finished jobs were forgotten", jobs=len(ids), first=ids[0], last=ids[-1])
