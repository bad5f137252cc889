"""The store: one connection that writes, one that reads, and the questions that can be asked."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio

from jobd.model.job import Event, Job, Tasks
from jobd.model.states import JobState
from jobd.store.batch import Batch, Request, Session
from jobd.store.commit import forget_requests, trim_events, write
from jobd.store.connection import Connection, fetch, reader, writer
from jobd.store.faults import explained
from jobd.store.opening import prepare
from jobd.store.queries import QUERIES
from jobd.store.records import JOB_COLUMNS, event_of, job_of, tasks_of

T = TypeVar("T")

FILE = "jobd.db"
_EVERYTHING = -1
_LARGEST = 2**63 - 1
_STEP = 500
"""How many jobs or events one step of retention deletes: a few milliseconds, in which no commit passes."""
_LOOK = 20_000
"""How many runs one step of retention looks at: some milliseconds, in which no other question is answered."""
_SPARE_EVENTS = 10_000


class Store:
    """What jobd keeps, in ``<state>/jobd.db``. Made by ``Store.open``."""

    def __init__(self, path: Path, writing: Connection, reading: Connection, store_id: str) -> None:
        self.path = path
        self.store_id = store_id
        self._writing = writing
        self._reading = reading

    @staticmethod
    @asynccontextmanager
    async def open(state_dir: Path) -> AsyncIterator[Store]:
        """The store of a state folder, for as long as the context lasts.

        Raises:
            UnusableDatabase: the database is damaged, foreign, newer or can't be written; it was left untouched.
            OutOfResource: the disk is full.
        """
        path = state_dir / FILE
        async with AsyncExitStack() as stack:
            with explained(path):
                await anyio.to_thread.run_sync(prepare, path)
                writing = await stack.enter_async_context(writer(path))
                reading = await stack.enter_async_context(reader(path))
                meta = dict(await reading.run(lambda connection: fetch(connection, QUERIES["meta"])))
            yield Store(path, writing, reading, meta["store"])

    async def commit(self, batch: Batch) -> None:
        """Write a batch in one transaction, or nothing of it.

        The caller's cancellation waits for it: what has begun to be written is known to be written or not.

        Raises:
            OutOfResource: the disk is full, or another program holds the database.
            Internal: the schema does not allow it.
            UnusableDatabase: the database turned out to be damaged.
        """
        with anyio.CancelScope(shield=True):
            await self._write(lambda connection: write(connection, batch))

    async def generation(self) -> int:
        """A number for this start of the daemon, greater than any before."""

        def bump(connection: sqlite3.Connection) -> int:
            return int(fetch(connection, QUERIES["bump_generation"])[0][0])

        return await self._write(bump)

    async def counters(self) -> Mapping[str, int]:
        """The last numbers given."""
        return dict(await self._read("counters"))

    async def load_active(self) -> list[tuple[Job, Tasks]]:
        """Every run of tasks that has not ended, in order of job and index. Costs what is active."""
        return _jobs(await self._read("active"))

    async def find(self, job: int) -> tuple[Job, list[Tasks]] | None:
        """A job and all its runs; None if there is none."""
        rows = _jobs(await self._read("job", (job,)))
        return (rows[0][0], [tasks for _, tasks in rows]) if rows else None

    async def finished(
        self,
        before_id: int | None,
        limit: int | None,
        *,
        owner_uid: int | None = None,
        session: str | None = None,
        backend: str | None = None,
        queue: str | None = None,
        since: float | None = None,
        states: Collection[JobState] | None = None,
        labels: Mapping[str, str] | None = None,
        ids: tuple[int, int] | None = None,
    ) -> list[tuple[Job, Tasks]]:
        """Finished runs, the newest first. What is None restricts nothing; ``since`` is a submission time."""
        first, last = ids or (0, _LARGEST)
        values = {
            "first": first,
            "last": last if before_id is None else min(last, before_id - 1),
            "limit": _EVERYTHING if limit is None else limit,
            "owner_uid": owner_uid,
            "session": session,
            "backend": backend,
            "queue": queue,
            "since": since,
            "states": None if states is None else json.dumps([int(state) for state in states]),
            "labels": json.dumps(labels) if labels else None,
        }
        return _jobs(await self._read("finished", values))

    async def environment(self, digest: str) -> bytes:
        """The content of a stored environment: ``NAME=value`` entries joined by NUL.

        Raises:
            KeyError: there is none of that digest.
        """
        rows = await self._read("environment", (digest,))
        if not rows:
            raise KeyError(digest)
        return bytes(rows[0][0])

    async def newest_job(self, owner_uid: int) -> int | None:
        """The number of an owner's newest job."""
        rows = await self._read("newest_job", (owner_uid,))
        return rows[0][0] if rows else None

    async def sessions(self, owner_uid: int) -> list[Session]:
        """An owner's job sessions, by name."""
        return [Session(*row) for row in await self._read("sessions", (owner_uid,))]

    async def request(self, owner_uid: int, request_id: str) -> Request | None:
        """What a request id gave, also when its jobs are forgotten."""
        rows = await self._read("request", (owner_uid, request_id))
        return Request(*rows[0]) if rows else None

    async def events(self, after: int, limit: int, job: int | None = None) -> Sequence[Event]:
        """Events after a sequence number, of one job or of all, in order."""
        if job is None:
            rows = await self._read("events", (after, limit))
        else:
            rows = await self._read("events_of_job", (job, after, limit))
        return [event_of(row) for row in rows]

    async def first_event(self) -> int:
        """The sequence number from which on no event is missing."""
        return int((await self._read("first_event"))[0][0])

    async def expired(self, ended_before: float | None, keep: int | None) -> list[int]:
        """Some of the finished jobs that retention no longer keeps, the oldest first; empty when there are none."""
        found: list[int] = []
        if ended_before is not None:
            found = await self._aged(ended_before)
        if not found and keep is not None:
            found = [row[0] for row in await self._read("surplus_jobs", (keep, _STEP))]
        return found

    async def _aged(self, ended_before: float) -> list[int]:
        """Looks at bounded stretches, since where nothing has expired all of them have to be looked at."""
        first = 0
        while True:
            end = await self._read("step_end", (first, _LOOK))
            last = end[0][0] if end else _LARGEST
            rows = await self._read("expired_jobs", (first, last, ended_before, _STEP))
            if rows or not end:
                return [row[0] for row in rows]
            first = last + 1

    async def trim_events(self) -> bool:
        """Delete some events of jobs that are forgotten, the oldest first; whether there may be more."""
        return await self._write(lambda connection: trim_events(connection, _SPARE_EVENTS, _STEP))

    async def trim_requests(self, before: float) -> bool:
        """Forget some request ids that came before a time; whether there may be more."""
        keys = await self._read("expired_requests", (before, _STEP))
        if keys:
            await self._write(lambda connection: forget_requests(connection, keys))
        return len(keys) == _STEP

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with explained(self.path):
            return await self._writing.run(work)

    async def _read(self, name: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        with explained(self.path):
            return await self._reading.run(lambda connection: fetch(connection, QUERIES[name], parameters))


def _jobs(rows: list[tuple[Any, ...]]) -> list[tuple[Job, Tasks]]:
    """Jobs with their runs; rows of one job in a row share it."""
    found: list[tuple[Job, Tasks]] = []
    for row in rows:
        job = found[-1][0] if found and found[-1][0].id == row[0] else job_of(row)
        found.append((job, tasks_of(row[JOB_COLUMNS:])))
    return found
