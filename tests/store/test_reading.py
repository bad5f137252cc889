"""Questions: each answered as a plain model would, and at a cost that follows the answer, not the database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import given, settings
from hypothesis import strategies as st

from jobd.model.job import Job, Owner, Tasks
from jobd.model.states import JobState
from jobd.model.template import JobTemplate
from jobd.store import Batch, Store
from jobd.store.opening import prepare
from jobd.store.queries import QUERIES
from tests.store.making import ended, event, job, submission, waiting

KEYS = ["a", 'q"uote', "back\\slash", "", "a.b", "é"]
VALUES = ["x", "1", "", 'y"', "null"]
LABELS = st.none() | st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2)


@st.composite
def records(draw: st.DrawFn) -> list[tuple[Job, Tasks]]:
    """Some jobs that differ in what can be asked for; some still wait."""
    found = []
    for number in sorted(draw(st.sets(st.integers(1, 30), max_size=8))):
        one = job(
            number,
            JobTemplate(remote_command="true", labels=draw(LABELS)),
            owner=Owner(draw(st.integers(1, 2)), "o"),
            session=draw(st.sampled_from("st")),
            queue=draw(st.sampled_from("qr")),
            backend=draw(st.sampled_from("bc")),
        )
        run = draw(st.sampled_from([waiting(number), ended(number), ended(number, code=1)]))
        found.append((one, run))
    return found


CRITERIA = st.fixed_dictionaries(
    {
        "owner_uid": st.none() | st.integers(1, 3),
        "session": st.none() | st.sampled_from("st"),
        "backend": st.none() | st.sampled_from("bc"),
        "queue": st.none() | st.sampled_from("qr"),
        "since": st.none() | st.integers(0, 30).map(float),
        "states": st.none() | st.sets(st.sampled_from(JobState), max_size=3),
        "labels": LABELS,
        "ids": st.none() | st.tuples(st.integers(0, 30), st.integers(0, 30)),
    }
)


def fits(record: tuple[Job, Tasks], before: int | None, wanted: dict[str, Any]) -> bool:
    """What ``finished`` means, said plainly."""
    one, run = record
    checks = [
        run.state.final,
        before is None or one.id < before,
        wanted["owner_uid"] in (None, one.owner.uid),
        wanted["session"] in (None, one.session),
        wanted["backend"] in (None, one.backend),
        wanted["queue"] in (None, one.queue),
        wanted["since"] is None or one.submission_time >= wanted["since"],
        wanted["states"] is None or run.state in wanted["states"],
        (wanted["labels"] or {}).items() <= (one.template.labels or {}).items(),
        wanted["ids"] is None or wanted["ids"][0] <= one.id <= wanted["ids"][1],
    ]
    return all(checks)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Store]]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Store.open(tmp_path_factory.mktemp("store"))) as store,
    ):
        yield portal, store


@given(
    stored=records(),
    before=st.none() | st.integers(0, 31),
    limit=st.none() | st.integers(0, 5),
    wanted=CRITERIA,
)
@settings(deadline=None)
def test_finished_jobs_by_any_criteria(
    shared: tuple[Any, Store],
    stored: list[tuple[Job, Tasks]],
    before: int | None,
    limit: int | None,
    wanted: dict[str, Any],
) -> None:
    portal, store = shared
    portal.call(store.commit, Batch(jobs=[j for j, _ in stored], tasks={(t.job, 0): t for _, t in stored}))
    try:
        found = portal.call(lambda: store.finished(before, limit, **wanted))
    finally:
        portal.call(store.commit, Batch(reaped=[j.id for j, _ in stored]))
    newest_first = [record for record in reversed(stored) if fits(record, before, wanted)]
    assert found == newest_first[:limit]


@pytest.mark.anyio
async def test_pages_of_finished_jobs_meet_without_a_gap(store: Store) -> None:
    jobs = [job(number) for number in range(1, 8)]
    await store.commit(Batch(jobs=jobs, tasks={(one.id, 0): ended(one.id) for one in jobs}))
    seen: list[int] = []
    while page := await store.finished(seen[-1] if seen else None, 3):
        seen += [one.id for one, _ in page]
    assert seen == [7, 6, 5, 4, 3, 2, 1]


@pytest.mark.anyio
async def test_events_after_a_number_of_one_job_or_all(store: Store) -> None:
    batch = submission(job(1), job(2))
    batch.events += [event(3, 1, JobState.RUNNING, JobState.QUEUED), event(4, 1, JobState.DONE, JobState.RUNNING)]
    await store.commit(batch)
    assert [one.seq for one in await store.events(0, 10)] == [1, 2, 3, 4]
    assert [one.seq for one in await store.events(2, 1)] == [3]
    assert [one.seq for one in await store.events(0, 10, 1)] == [1, 3, 4]
    assert [one.seq for one in await store.events(1, 1, 1)] == [3]
    assert await store.events(4, 10) == []


@pytest.fixture
def plan(tmp_path: Path) -> Iterator[Any]:
    """How SQLite goes about a query, in a database with statistics of none."""
    prepare(tmp_path / "jobd.db")
    with closing(sqlite3.connect(tmp_path / "jobd.db")) as connection:

        def steps(name: str) -> list[str]:
            text = QUERIES[name]
            names = "first last limit owner_uid session backend queue since states labels".split()
            values: Any = dict.fromkeys(names) if ":limit" in text else ["[1]"] * text.count("?")
            return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", values)]

        yield steps


@pytest.mark.parametrize(
    "name",
    [
        *("job", "events", "events_of_job", "newest_job", "request", "sessions", "environment", "finished"),
        *("expired_jobs", "delete_jobs", "delete_tasks", "delete_events", "delete_events_of_jobs"),
        *("environments_of_jobs", "count_environment", "drop_environment", "delete_task"),
    ],
)
def test_old_work_makes_nothing_slow(plan: Any, name: str) -> None:
    """Tables are searched by a key or an index, and never read from end to end nor sorted by hand."""
    steps = plan(name)
    scanned = [step for step in steps if step.startswith("SCAN") and "json_each" not in step and "VIRTUAL" not in step]
    sorted_by_hand = [step for step in steps if "ORDER BY" in step]
    assert (scanned, sorted_by_hand) == ([], []), steps


def test_start_reads_the_index_of_what_is_active(plan: Any) -> None:
    assert plan("active") == [
        "SCAN task USING INDEX task_active",
        "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)",
    ]
