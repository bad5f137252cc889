"""What backends may ask of the picture (jobd.backends.base.Jobs)."""

from __future__ import annotations

from collections.abc import Iterator

from jobd.bookkeeper.bookkeeper import Bookkeeper
from jobd.bookkeeper.waiters import started as is_started
from jobd.bookkeeper.waiters import terminated
from jobd.model.ids import JobId
from jobd.model.job import Job, Tasks


class JobsView:
    """The bookkeeper, as far as backends see it."""

    def __init__(self, bookkeeper: Bookkeeper) -> None:
        self._bookkeeper = bookkeeper

    def active(self, backend: str) -> Iterator[tuple[Job, Tasks]]:
        """A backend's jobs that have not ended."""
        for entry in self._bookkeeper.picture:
            if entry.job.backend == backend:
                yield from ((entry.job, run) for run in entry.runs)

    def attempt(self, id: JobId) -> int | None:
        """The attempt that an active job is at."""
        runs = self._bookkeeper.picture.runs_of(id)
        return runs[0].attempt if runs else None

    async def started(self, id: JobId) -> None:
        """Wait until a job has come to its exec, or has ended."""
        await self._bookkeeper.wait([id], _begun, any_of=False)

    async def ended(self, id: JobId) -> None:
        """Wait until a job has ended."""
        await self._bookkeeper.wait([id], terminated, any_of=False)


def _begun(tasks: Tasks) -> bool:
    return is_started(tasks) is not False
