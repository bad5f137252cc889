"""What writes: each function is one transaction, in the writing connection's thread."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jobd.store.batch import Batch
from jobd.store.queries import QUERIES
from jobd.store.records import JobRows, event_row, task_row

_Q = QUERIES


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite has rolled back by itself on a full disk; a second rollback would hide the reason.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def write(connection: sqlite3.Connection, batch: Batch) -> None:
    """Commit a batch, or roll it back whole.

    Raises:
        sqlite3.Error: as SQLite says; nothing was written.
        OverflowError, UnicodeError: SQLite can't hold a value; nothing was written.
    """
    with _transaction(connection):
        _submissions(connection, batch)
        _progress(connection, batch)
        _sessions(connection, batch)
        _reaped(connection, batch)
        connection.executemany(_Q["set_counter"], [(value, name) for name, value in batch.counters.items()])


def _submissions(connection: sqlite3.Connection, batch: Batch) -> None:
    if not batch.jobs:
        return
    connection.executemany(_Q["put_environment"], list(batch.environments.items()))
    counts = Counter(job.environment for job in batch.jobs if job.environment is not None)
    connection.executemany(_Q["count_environment"], [(count, digest) for digest, count in counts.items()])
    rows = JobRows()
    connection.executemany(_Q["insert_job"], [rows.row(job) for job in batch.jobs])
    if batch.requests:
        values = [(r.owner_uid, r.request_id, r.digest, r.first, r.last, r.created) for r in batch.requests]
        connection.executemany(_Q["insert_request"], values)


def _progress(connection: sqlite3.Connection, batch: Batch) -> None:
    if batch.removed_tasks:
        connection.executemany(_Q["delete_task"], batch.removed_tasks)
    if batch.tasks:
        connection.executemany(_Q["put_task"], [task_row(tasks) for tasks in batch.tasks.values()])
    if batch.events:
        connection.executemany(_Q["insert_event"], [event_row(event) for event in batch.events])


def _sessions(connection: sqlite3.Connection, batch: Batch) -> None:
    for one in batch.sessions_created:
        connection.execute(_Q["insert_session"], (one.owner_uid, one.name, one.contact, one.created))
    for key in batch.sessions_destroyed:
        connection.execute(_Q["delete_session"], key)


def _reaped(connection: sqlite3.Connection, batch: Batch) -> None:
    if not batch.reaped:
        return
    ids = (json.dumps(batch.reaped),)
    counts = connection.execute(_Q["environments_of_jobs"], ids).fetchall()
    connection.execute(_Q["delete_jobs"], ids)
    connection.execute(_Q["delete_tasks"], ids)
    connection.execute(_Q["delete_events_of_jobs"], ids)
    connection.executemany(_Q["count_environment"], [(-count, digest) for digest, count in counts])
    connection.executemany(_Q["drop_environment"], [(digest,) for digest, _ in counts])


def trim_events(connection: sqlite3.Connection, spare: int, step: int) -> bool:
    """Raise the floor of the event log by up to ``step`` numbers; whether it can be raised further.

    From the floor on the log is without a gap; below it are left only the events of jobs that are kept, which ``show``
    tells. It stays below the oldest finished job that is kept, so that it moves as retention does, and not past the
    newest ``spare`` events, so that somebody who was away for a moment loses none.
    """
    with _transaction(connection):
        numbers: dict[str, int] = dict(connection.execute(_Q["counters"]).fetchall())
        kept: int | None = connection.execute(_Q["first_event_of_ended"]).fetchone()[0]
        floor, end = numbers["first_event"], numbers["event"] + 1
        goal = min(end if kept is None else kept, end - spare)
        reached = min(goal, floor + step)
        if reached > floor:
            connection.execute(_Q["delete_events"], (floor, reached))
            connection.execute(_Q["set_counter"], (reached, "first_event"))
    return reached < goal


def forget_requests(connection: sqlite3.Connection, keys: Sequence[tuple[Any, ...]]) -> None:
    """Delete request ids, by owner and id."""
    with _transaction(connection):
        connection.executemany(_Q["delete_request"], keys)
