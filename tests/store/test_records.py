"""Every record comes back as it was, through a real database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobd.model.job import Event, Job, Tasks
from jobd.model.states import JobState
from jobd.store import Batch
from jobd.store.commit import write
from jobd.store.opening import migrations, prepare
from jobd.store.queries import QUERIES
from jobd.store.records import JOB_COLUMNS, event_of, job_of, tasks_of
from tests.store.making import jobs_numbered, runs_of

FIXED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = tmp_path / "jobd.db"
    prepare(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        # Each example commits; what durability costs is not what is tested here.
        opened.execute("PRAGMA synchronous = OFF")
        yield opened


@given(job=jobs_numbered(7), tasks=runs_of(7))
@FIXED
def test_a_job_and_where_it_stands(connection: sqlite3.Connection, job: Job, tasks: Tasks) -> None:
    write(connection, Batch(jobs=[job], tasks={(7, 0): tasks}))
    rows = connection.execute(QUERIES["job"], (7,)).fetchall()
    write(connection, Batch(reaped=[7]))
    assert [(job_of(row), tasks_of(row[JOB_COLUMNS:])) for row in rows] == [(job, tasks)]


@given(before=runs_of(7), after=runs_of(7))
@FIXED
def test_nothing_of_an_earlier_status_shines_through(
    connection: sqlite3.Connection, before: Tasks, after: Tasks
) -> None:
    for tasks in (before, after):
        write(connection, Batch(tasks={(7, 0): tasks}))
    rows = connection.execute("SELECT * FROM task WHERE job = 7").fetchall()
    assert [tasks_of(row) for row in rows] == [after]


@given(
    event=st.builds(
        Event,
        seq=st.just(1),
        job=st.integers(1, 2**63 - 1),
        first=st.integers(0, 2**63 - 1),
        last=st.integers(0, 2**63 - 1),
        before=st.none() | st.sampled_from(JobState),
        after=st.sampled_from(JobState),
        sub_state=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
        at=st.floats(0, 4e9),
    )
)
@FIXED
def test_an_event(connection: sqlite3.Connection, event: Event) -> None:
    write(connection, Batch(events=[event]))
    rows = connection.execute(QUERIES["events"], (0, 10)).fetchall()
    connection.execute("DELETE FROM event")
    assert [event_of(row) for row in rows] == [event]


def test_states_are_stored_as_drmaa2_numbers(connection: sqlite3.Connection) -> None:
    assert [int(state) for state in JobState] == list(range(9))
    connection.execute("INSERT INTO event (seq, job, first, last, after, at) VALUES (1, 1, 0, 0, 8, 0)")
    assert event_of(connection.execute(QUERIES["events"], (0, 1)).fetchone()).after is JobState.FAILED


def test_a_job_has_as_many_columns_as_are_counted(connection: sqlite3.Connection) -> None:
    assert len(connection.execute("PRAGMA table_info(job)").fetchall()) == JOB_COLUMNS


def test_every_query_is_valid_and_every_migration_numbered(connection: sqlite3.Connection) -> None:
    names = dict.fromkeys(("first", "last", "limit", "owner_uid", "session", "backend", "queue", "since"))
    names |= {"states": "[]", "labels": "{}"}
    for text in QUERIES.values():
        values = names if ":limit" in text else ["[]"] * text.count("?")
        assert connection.execute(f"EXPLAIN {text}", values).fetchall()
    assert [number for number, _ in migrations()] == list(range(1, len(migrations()) + 1))
