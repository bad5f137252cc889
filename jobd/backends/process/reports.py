"""The one door through which everything that is seen of processes goes to the bookkeeper."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import structlog

from jobd.backends.base import Observation, Observer
from jobd.model.errors import JobdError, OutOfResource

_log = structlog.get_logger(__name__)

_AGAIN = 1.0


class Reports:
    """Tells an observer, and on a full disk tells it again until there is room."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    async def tell(self, seen: Sequence[Observation]) -> bool:
        """Returns once it is committed; False where it can't be, for a reason that more room does not cure.

        What was not committed must not be acknowledged: the keeper, or its journal, has it for the next daemon.
        """
        while seen:
            try:
                await self._observer.observe(seen)
            except OutOfResource as error:
                _log.warning("reports wait for room on disk", error=error.message)
                await anyio.sleep(_AGAIN)
            except JobdError as error:
                _log.error("reports could not be committed", error=error.message, jobs=[str(one.id) for one in seen])
                return False
            else:
                return True
        return True
