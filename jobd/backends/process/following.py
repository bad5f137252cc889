"""Following an output as it grows: changes are pushed by the kernel where the file is local."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio

from jobd.backends.base import Jobs, Sink
from jobd.backends.process.output import CapturedFile, UserFile
from jobd.inotify import MODIFIED, Inotify, Watch
from jobd.model.ids import JobId

_SETTLE = 0.5
_UNPUSHED = 1.0

Source = CapturedFile | UserFile


class End:
    """When a job's output is over: its end, and then its process group's, half a second later at the most.

    Args:
        emptied: the event of a group that outlives its leader, None where it does not.
    """

    def __init__(
        self, id: JobId, token: str, jobs: Jobs, emptied: Callable[[str], anyio.Event | None]
    ) -> None:
        self._id = id
        self._token = token
        self._jobs = jobs
        self._emptied = emptied

    async def begun(self) -> None:
        """Wait until there is a file to look at."""
        await self._jobs.started(self._id)

    async def wait(self) -> None:
        """Wait until nothing more is to come."""
        await self._jobs.ended(self._id)
        emptied = self._emptied(self._token)
        if emptied is not None:
            with anyio.move_on_after(_SETTLE):
                await emptied.wait()


async def drain(source: Source, offset: int, sink: Sink) -> int:
    """Give all that is there; the offset after it."""
    while chunk := await source.read(offset):
        await sink(chunk)
        offset += len(chunk)
    return offset


async def follow_output(source: Source, offset: int, sink: Sink, end: End, inotify: Inotify) -> None:
    """Give what is there and what comes, until the end."""
    await end.begun()
    over = False
    with _watching(source, inotify) as (watch, pushed):

        async def until_end() -> None:
            nonlocal over
            await end.wait()
            over = True
            watch.changed()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(until_end)
            while True:
                last = over
                offset = await drain(source, offset, sink)
                if last:
                    return
                with anyio.move_on_after(None if pushed else _UNPUSHED):
                    await watch.wait()


@contextmanager
def _watching(source: Source, inotify: Inotify) -> Iterator[tuple[Watch, bool]]:
    """A watch on the file, and whether its growth is pushed.

    A file on a remote path is looked at each second: putting a watch on it might hang. So is one that can't be watched,
    since it is not there any more or no watch is left.
    """
    with ExitStack() as stack:
        watch = None
        if source.watchable:
            try:
                watch = stack.enter_context(inotify.watching(Path(os.fsdecode(source.path)), MODIFIED))
            except OSError:
                watch = None
        yield watch or Watch(), watch is not None
