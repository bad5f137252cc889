"""A batch is written whole or not at all, and counts what it refers to."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobd.model.errors import Internal
from jobd.model.job import Owner
from jobd.store import Batch, Request, Session, Store
from tests.store.making import OWNER, TEMPLATE, ended, event, job, progress, running, submission, waiting

pytestmark = pytest.mark.anyio


async def everything(store: Store) -> Any:
    """What the store knows, as far as can be asked."""
    return (
        await store.counters(),
        await store.load_active(),
        await store.finished(None, None),
        await store.events(0, 1000),
        await store.sessions(OWNER.uid),
        await store.request(OWNER.uid, "once"),
    )


async def test_an_empty_store(store: Store) -> None:
    assert await store.counters() == {"job": 0, "event": 0, "generation": 0, "first_event": 1}
    assert await store.load_active() == []
    assert await store.finished(None, None) == []
    assert await store.find(1) is None
    assert await store.newest_job(OWNER.uid) is None
    assert await store.first_event() == 1
    assert len(store.store_id) >= 8


async def test_a_submission_is_there_after_the_commit(store: Store) -> None:
    one, two = job(1), job(2)
    await store.commit(submission(one, two))
    assert await store.load_active() == [(one, waiting(1)), (two, waiting(2))]
    assert await store.find(2) == (two, [waiting(2)])
    assert await store.events(0, 10) == [event(1, 1), event(2, 2)]
    counters = await store.counters()
    assert (counters["job"], counters["event"]) == (2, 2)


async def test_progress_replaces_what_was_there(store: Store) -> None:
    one = job(1)
    await store.commit(submission(one))
    await store.commit(progress(running(1)))
    assert await store.load_active() == [(one, running(1))]
    await store.commit(progress(ended(1)))
    assert await store.load_active() == []
    assert await store.finished(None, None) == [(one, ended(1))]


def _nothing_else(batch: Batch) -> Batch:
    """A batch with one of everything beside what it has."""
    good = submission(job(5), first_event=5)
    return Batch(
        jobs=good.jobs + batch.jobs,
        tasks=good.tasks | batch.tasks,
        events=good.events + batch.events,
        sessions_created=[Session(OWNER.uid, "s", "", 1.0), *batch.sessions_created],
        requests=[Request(OWNER.uid, "once", b"d", 5, 5, 1.0), *batch.requests],
        reaped=[1],
        counters={**good.counters, **batch.counters},
    )


TOO_LARGE = 2**63
POISON = {
    "a job twice": Batch(jobs=[job(1)]),
    "an event number twice": Batch(events=[event(1, 1)]),
    "a session twice": Batch(sessions_created=[Session(OWNER.uid, "s", "", 1.0)]),
    "a request twice": Batch(requests=[Request(OWNER.uid, "once", b"d", 1, 1, 1.0)]),
    "a number past 64 bits": Batch(tasks={(1, 0): ended(1, code=TOO_LARGE)}),
    "a lone surrogate": Batch(tasks={(1, 0): running(1, native_id="\udcff")}),
    "a counter past 64 bits": Batch(counters={"job": TOO_LARGE}),
    "a null": Batch(jobs=[job(9, session=None)]),
}


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON.keys())
async def test_a_batch_with_one_bad_change_leaves_nothing(store: Store, poison: Batch) -> None:
    await store.commit(submission(job(1)))
    before = await everything(store)
    with pytest.raises(Internal, match=r"jobd\.db"):
        await store.commit(_nothing_else(poison))
    assert await everything(store) == before
    await store.commit(_nothing_else(Batch()))
    assert await store.find(1) is None
    assert await store.find(5) == (job(5), [waiting(5)])


async def test_runs_that_are_split_and_merged(store: Store) -> None:
    array = job(1)
    whole = waiting(1, 1, 9)
    await store.commit(Batch(jobs=[array], tasks={(1, 1): whole}))
    await store.commit(progress(waiting(1, 1, 3), running(1, 4, 4), waiting(1, 5, 9)))
    assert await store.load_active() == [
        (array, waiting(1, 1, 3)),
        (array, running(1, 4, 4)),
        (array, waiting(1, 5, 9)),
    ]
    await store.commit(Batch(tasks={(1, 1): whole}, removed_tasks=[(1, 1), (1, 4), (1, 5)]))
    assert await store.find(1) == (array, [whole])


async def test_an_array_with_ended_and_active_runs_is_in_both_lists(store: Store) -> None:
    array = job(1)
    await store.commit(Batch(jobs=[array], tasks={(1, 1): ended(1, 1, 4), (1, 5): waiting(1, 5, 9)}))
    assert await store.load_active() == [(array, waiting(1, 5, 9))]
    assert await store.finished(None, None) == [(array, ended(1, 1, 4))]


async def test_an_environment_is_there_while_a_job_refers_to_it(store: Store) -> None:
    first = submission(job(1, environment="d1"), job(2, environment="d1"), job(3, environment="d2"))
    first.environments = {"d1": b"A=1\0B=\xff", "d2": b""}
    await store.commit(first)
    await store.commit(Batch(reaped=[1]))
    assert await store.environment("d1") == b"A=1\0B=\xff"
    assert await store.environment("d2") == b""
    # One that comes again is kept once; one that is known need not be brought again.
    again = submission(job(4, environment="d1"), first_event=4)
    again.environments = {"d1": b"A=1\0B=\xff"}
    await store.commit(again)
    await store.commit(submission(job(5, environment="d1"), first_event=5))
    await store.commit(Batch(reaped=[2, 3, 4]))
    assert await store.environment("d1") == b"A=1\0B=\xff"
    with pytest.raises(KeyError):
        await store.environment("d2")
    await store.commit(Batch(reaped=[5]))
    with pytest.raises(KeyError):
        await store.environment("d1")


async def test_an_environment_whose_last_job_goes_as_a_new_one_comes_stays(store: Store) -> None:
    first = submission(job(1, environment="d"))
    first.environments = {"d": b"A=1"}
    await store.commit(first)
    batch = submission(job(2, environment="d"), first_event=2)
    batch.environments, batch.reaped = {"d": b"A=1"}, [1]
    await store.commit(batch)
    assert await store.environment("d") == b"A=1"


async def test_sessions_belong_to_their_owner(store: Store) -> None:
    mine = Session(OWNER.uid, "night", "me@here", 1.5)
    other = Session(1, "night", "", 2.5)
    await store.commit(Batch(sessions_created=[other, mine]))
    assert await store.sessions(OWNER.uid) == [mine]
    await store.commit(Batch(sessions_destroyed=[(OWNER.uid, "night")]))
    assert await store.sessions(OWNER.uid) == []
    assert await store.sessions(1) == [other]


async def test_a_request_outlives_its_jobs(store: Store) -> None:
    request = Request(OWNER.uid, "once", b"\0digest", 1, 1, 1.0)
    batch = submission(job(1))
    batch.requests = [request]
    await store.commit(batch)
    await store.commit(Batch(tasks={(1, 0): ended(1)}))
    await store.commit(Batch(reaped=[1]))
    assert await store.find(1) is None
    assert await store.request(OWNER.uid, "once") == request
    assert await store.request(OWNER.uid + 1, "once") is None


async def test_generations_rise_over_restarts(tmp_path: Path) -> None:
    seen = []
    for _ in range(3):
        async with Store.open(tmp_path) as store:
            seen += [await store.generation(), await store.generation()]
    assert seen == [1, 2, 3, 4, 5, 6]


async def test_the_store_keeps_its_id(tmp_path: Path) -> None:
    async with Store.open(tmp_path) as store:
        first = store.store_id
    async with Store.open(tmp_path) as store:
        assert store.store_id == first


async def test_a_cancelled_caller_s_commit_is_finished(store: Store) -> None:
    returned = False
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.commit(submission(job(1)))
        returned = True
        await anyio.lowlevel.checkpoint()
    assert returned
    assert scope.cancelled_caught
    assert await store.find(1) == (job(1), [waiting(1)])


async def test_a_cancelled_question_does_no_harm(store: Store) -> None:
    await store.commit(submission(job(1)))
    for _ in range(20):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await store.find(1)
    assert await store.find(1) == (job(1), [waiting(1)])


async def test_a_commit_is_seen_by_whoever_asks_after_it(store: Store) -> None:
    """The reading connection sees what was committed before it was asked, however often."""
    for number in range(1, 50):
        await store.commit(submission(job(number), first_event=number))
        assert await store.newest_job(OWNER.uid) == number


async def test_each_commit_is_durable(store: Store, tmp_path: Path) -> None:
    """WAL, and every commit waits for the disk (synchronous=FULL)."""

    def settings_of(connection: sqlite3.Connection) -> tuple[str, int]:
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        return mode, connection.execute("PRAGMA synchronous").fetchone()[0]

    assert await store._writing.run(settings_of) == ("wal", 2)
    assert (tmp_path / "jobd.db-wal").exists()


async def test_two_owners_newest_jobs(store: Store) -> None:
    other = Owner(7, "other")
    await store.commit(submission(job(1, owner=other), job(2), job(3)))
    assert (await store.newest_job(7), await store.newest_job(OWNER.uid)) == (1, 3)
    await store.commit(Batch(reaped=[3]))
    assert await store.newest_job(OWNER.uid) == 2


async def test_jobs_that_share_a_template_keep_it(store: Store) -> None:
    other = type(TEMPLATE)(remote_command="false")
    jobs = [job(1), job(2), job(3, other), job(4)]
    await store.commit(submission(*jobs))
    assert [found for found, _ in await store.load_active()] == jobs


async def test_a_batch_that_writes_nothing_is_false() -> None:
    assert not Batch()
    assert not Batch(counters={"job": 1})
    assert Batch(removed_tasks=[(1, 0)])
    assert progress(ended(1))
