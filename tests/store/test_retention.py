"""What is forgotten, and what outlives it; and a disk without room."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobd.model.errors import Internal, OutOfResource
from jobd.model.job import Event, Job, Owner, Tasks
from jobd.model.states import JobState
from jobd.model.status import Ended, Exited, Waiting
from jobd.model.template import JobTemplate
from jobd.store import Batch, Request, Store

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(tmp_path) as opened:
        yield opened


def batch(number: int, ended: float | None, environment: str | None = None) -> Batch:
    """A job, active or ended at a time, with an event."""
    job = Job(
        id=number,
        owner=Owner(1, "o"),
        session="default",
        backend="local",
        queue="default",
        template=JobTemplate(remote_command="x" * 1000),
        environment=environment,
        submission_time=1.0,
        submission_machine="here",
    )
    status = Waiting(JobState.QUEUED) if ended is None else Ended(JobState.DONE, Exited(0), ended)
    event = Event(seq=number, job=number, first=0, last=0, before=None, after=status.state, sub_state=None, at=1.0)
    environments = {} if environment is None else {environment: b"A=1"}
    return Batch(
        jobs=[job],
        tasks={(number, 0): Tasks(job=number, status=status)},
        events=[event],
        environments=environments,
        counters={"job": number, "event": number},
    )


async def test_by_age_and_by_count(store: Store) -> None:
    for number, ended in enumerate([10.0, 20.0, None, 30.0, 40.0], 1):
        await store.commit(batch(number, ended))
    assert await store.expired(25.0, None) == [1, 2]
    assert await store.expired(None, 3) == [1]
    assert await store.expired(None, 0) == [1, 2, 4, 5]
    assert await store.expired(5.0, 4) == []
    assert await store.expired(None, None) == []


async def test_events_of_what_is_forgotten_go_up_to_the_first_that_is_wanted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobd.store.store._SPARE_EVENTS", 0)
    for number in range(1, 6):
        await store.commit(batch(number, 10.0))
    await store.commit(Batch(reaped=[1, 2]))
    assert await store.trim_events() is False
    assert await store.first_event() == 3
    await store.commit(Batch(reaped=[3, 4, 5]))
    await store.trim_events()
    assert await store.first_event() == 6, "the number that comes next"


async def test_an_environment_goes_with_its_last_job(store: Store) -> None:
    await store.commit(batch(1, 10.0, "digest"))
    await store.commit(batch(2, 10.0, "digest"))
    await store.commit(Batch(reaped=[1]))
    assert await store.environment("digest") == b"A=1"
    await store.commit(Batch(reaped=[2]))
    with pytest.raises(KeyError):
        await store.environment("digest")


async def test_a_request_id_outlives_its_jobs(store: Store) -> None:
    request = Request(1, "r", b"digest", 1, 1, 100.0)
    made = batch(1, 10.0)
    made.requests.append(request)
    await store.commit(made)
    await store.commit(Batch(reaped=[1]))
    assert await store.request(1, "r") == request
    assert await store.trim_requests(100.0) is False
    assert await store.request(1, "r") == request
    await store.trim_requests(101.0)
    assert await store.request(1, "r") is None


async def test_a_full_disk_loses_nothing_and_passes(store: Store) -> None:
    """``max_page_count`` stands for a disk that is full."""
    await store.commit(batch(1, None))
    pages = await store._writing.run(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
    await store._writing.run(lambda c: c.execute(f"PRAGMA max_page_count = {pages}"))
    with pytest.raises(OutOfResource, match="full"):
        for number in range(2, 200):
            await store.commit(batch(number, None))
    rows = [job.id for job, _ in await store.load_active()]
    assert rows == list(range(1, len(rows) + 1))
    await store._writing.run(lambda c: c.execute("PRAGMA max_page_count = 1000000"))
    await store.commit(batch(len(rows) + 1, None))
    assert len(await store.load_active()) == len(rows) + 1


async def test_a_batch_that_the_schema_refuses_leaves_nothing(store: Store) -> None:
    await store.commit(batch(1, None))
    poison = batch(2, None)
    poison.jobs.append(batch(1, None).jobs[0])
    with pytest.raises(Internal):
        await store.commit(poison)
    assert [job.id for job, _ in await store.load_active()] == [1]
    assert (await store.counters())["event"] == 1
