"""Old jobs go in bounded steps, their events with them, and what is whole of the event log is told exactly."""

from __future__ import annotations

import pytest

from jobd.model.states import JobState
from jobd.store import Batch, Request, Store
from tests.store.making import OWNER, ended, event, job, progress, submission, waiting

pytestmark = pytest.mark.anyio


async def fill(store: Store, count: int, active: frozenset[int] = frozenset()) -> None:
    """Jobs 1 to count with two events each; job n ended at n seconds unless it is active."""
    numbers = range(1, count + 1)
    batch = Batch(jobs=[job(number) for number in numbers])
    for number in numbers:
        batch.tasks[number, 0] = waiting(number) if number in active else ended(number, at=float(number))
        batch.events.append(event(2 * number - 1, number))
        batch.events.append(event(2 * number, number, JobState.DONE, JobState.QUEUED))
    batch.counters = {"job": count, "event": 2 * count}
    await store.commit(batch)


async def apply(store: Store, before: float | None, keep: int | None) -> list[list[int]]:
    """What the daemon does now and then."""
    steps = []
    while ids := await store.expired(before, keep):
        steps.append(ids)
        await store.commit(Batch(reaped=ids))
    while await store.trim_events():
        continue
    return steps


async def remaining(store: Store) -> list[int]:
    return [one.id for one, _ in reversed(await store.finished(None, None))]


@pytest.mark.usefixtures("small_steps")
async def test_by_age_in_bounded_steps(store: Store) -> None:
    await fill(store, 20, frozenset({2, 5}))
    steps = await apply(store, 11.0, None)
    assert sorted(id for ids in steps for id in ids) == [1, 3, 4, 6, 7, 8, 9, 10]
    assert all(len(ids) <= 3 for ids in steps)
    assert await remaining(store) == list(range(11, 21))
    assert [one.id for one, _ in await store.load_active()] == [2, 5]


@pytest.mark.usefixtures("small_steps")
async def test_by_count_the_newest_stay(store: Store) -> None:
    await fill(store, 20, frozenset({2, 19}))
    steps = await apply(store, None, 5)
    assert all(len(ids) <= 3 for ids in steps)
    assert await remaining(store) == [15, 16, 17, 18, 20]
    assert [one.id for one, _ in await store.load_active()] == [2, 19]


@pytest.mark.usefixtures("small_steps")
async def test_by_age_and_count(store: Store) -> None:
    await fill(store, 20)
    await apply(store, 3.0, 5)
    assert await remaining(store) == list(range(16, 21))


async def test_nothing_goes_where_nothing_is_to_go(store: Store) -> None:
    await fill(store, 4)
    assert await apply(store, None, None) == []
    assert await apply(store, 1.0, 4) == []
    assert await remaining(store) == [1, 2, 3, 4]
    assert await store.first_event() == 1


@pytest.mark.usefixtures("small_steps")
async def test_an_array_goes_when_all_of_it_has_ended_long_ago(store: Store) -> None:
    whole = {(1, first): ended(1, first, first, at=1.0) for first in range(1, 10)}
    await store.commit(
        Batch(jobs=[job(1), job(2)], tasks={**whole, (1, 5): waiting(1, 5, 5), (2, 0): ended(2, at=1.0)})
    )
    assert await apply(store, 9.0, 0) == [[2]]
    await store.commit(progress(ended(1, 5, 5, at=8.0)))
    assert await store.expired(8.0, None) == []
    assert await store.expired(9.0, None) == [1]
    assert await store.expired(None, 1) == []
    assert await store.expired(None, 0) == [1]


@pytest.mark.usefixtures("small_steps")
async def test_events_go_up_to_the_oldest_finished_job_that_is_kept(store: Store) -> None:
    await fill(store, 20)
    await apply(store, 11.0, None)
    assert await store.first_event() == 21
    assert [one.seq for one in await store.events(0, 100)] == list(range(21, 41))


@pytest.mark.usefixtures("small_steps")
async def test_one_old_active_job_keeps_its_own_events_only(store: Store) -> None:
    """Else a service that runs for months would keep every event of those months."""
    await fill(store, 20, frozenset({1}))
    await apply(store, 11.0, None)
    assert await store.first_event() == 21
    assert [one.seq for one in await store.events(0, 100)] == [1, 2, *range(21, 41)]
    assert [one.seq for one in await store.events(0, 100, 1)] == [1, 2]
    # When it goes at last, they do.
    await store.commit(progress(ended(1, at=50.0)))
    await store.commit(Batch(reaped=[1]))
    assert [one.seq for one in await store.events(0, 100)] == list(range(21, 41))


@pytest.mark.usefixtures("small_steps")
async def test_the_newest_events_stay_for_those_who_were_away_for_a_moment(store: Store) -> None:
    await fill(store, 5)
    await apply(store, 99.0, None)
    assert await remaining(store) == []
    assert await store.first_event() == 9
    assert [one.seq for one in await store.events(0, 100)] == [9, 10]


@pytest.mark.usefixtures("small_steps")
async def test_the_floor_never_sinks(store: Store) -> None:
    """A job that ended late has events below it; what is above is whole all the same."""
    await fill(store, 20, frozenset({1}))
    await apply(store, 11.0, None)
    await store.commit(progress(ended(1, at=50.0)))
    await apply(store, 16.0, None)
    assert await store.first_event() == 21
    assert await remaining(store) == [1, *range(16, 21)]
    await apply(store, 51.0, None)
    assert await store.first_event() == 39


async def test_events_stay_until_their_jobs_go(store: Store) -> None:
    await fill(store, 3)
    await store.commit(Batch(reaped=[1, 2]))
    assert await store.trim_events() is False
    assert [one.seq for one in await store.events(0, 100)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.usefixtures("small_steps")
async def test_request_ids_go_by_their_own_age_in_bounded_steps(store: Store) -> None:
    batch = submission(job(1))
    batch.requests = [Request(OWNER.uid, f"request {age}", b"d", 1, 1, float(age)) for age in range(8)]
    await store.commit(batch)
    await store.commit(Batch(reaped=[1]))
    assert await store.trim_requests(0.0) is False
    steps = 0
    while await store.trim_requests(7.0):
        steps += 1
    assert steps == 2, "7 of them, 3 a step"
    left = [age for age in range(8) if await store.request(OWNER.uid, f"request {age}")]
    assert left == [7]
