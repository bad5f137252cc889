"""Job ids and the job store: cases ID-* and ST-* of the reference's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobd.model.errors import DrmCommunication, InvalidArgument
from jobd.model.ids import parse_id
from jobd.model.job import Job, Owner, Tasks
from jobd.model.states import JobState
from jobd.model.status import Active, Ended, Exited, Usage, Waiting
from jobd.model.template import ArrayRange, JobTemplate
from jobd.store import Batch, Store

pytestmark = pytest.mark.anyio

WAITING = Waiting(JobState.QUEUED)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(tmp_path) as opened:
        yield opened


def job(number: int, **template: object) -> Job:
    """A submission."""
    return Job(
        id=number,
        owner=Owner(1000, "somebody"),
        session="default",
        backend="local",
        queue="default",
        template=JobTemplate(remote_command=f"command-{number}", **template),  # type: ignore[arg-type]
        environment=None,
        submission_time=1.0,
        submission_machine="here",
    )


def running(number: int, pid: str, first: int = 0, last: int = 0) -> Tasks:
    """A run of tasks with a process."""
    return Tasks(job=number, first=first, last=last, attempt=1, status=Active(JobState.RUNNING, pid, 2.0, ("here",)))


async def save(store: Store, saved: Job, *runs: Tasks) -> None:
    """Commit a job with its runs."""
    await store.commit(Batch(jobs=[saved], tasks={(run.job, run.first): run for run in runs}))


async def pid_of(store: Store, text: str) -> str | None:
    """The native id of a job or task, None where it has none; an error where there is no such task."""
    id = parse_id(text)
    found = await store.find(id.job)
    for run in found[1] if found else ():
        if run.first <= id.task <= run.last:
            return getattr(run.status, "native_id", None)
    raise InvalidArgument(f"there is no job {text}")


async def test_id_1_a_fresh_store_counts_from_1(store: Store) -> None:
    assert (await store.counters())["job"] == 0
    await store.commit(Batch(jobs=[job(1)], tasks={(1, 0): Tasks(job=1, status=WAITING)}, counters={"job": 1}))
    assert (await store.counters())["job"] == 1


async def test_id_2_an_id_never_comes_back(store: Store) -> None:
    """The reference rolls over to 1; here the counter outlives what it counted."""
    await store.commit(Batch(jobs=[job(1)], tasks={(1, 0): Tasks(job=1, status=WAITING)}, counters={"job": 1}))
    await store.commit(Batch(reaped=[1]))
    assert await store.find(1) is None
    assert (await store.counters())["job"] == 1


async def test_st_1_jobs_return_what_was_saved_in_any_order(store: Store) -> None:
    for number in (13, 7, 42):
        await save(store, job(number), running(number, str(1000 + number)))
    for number in (42, 7, 13):
        found = await store.find(number)
        assert found is not None
        assert found[0] == job(number)
        assert await pid_of(store, str(number)) == str(1000 + number)


@pytest.mark.parametrize("text", ["99", "12.asdf", "..", "13.asdf"])
async def test_st_2_and_3_unknown_and_malformed_ids_are_errors(store: Store, text: str) -> None:
    await save(store, job(13), running(13, "1"))
    with pytest.raises(InvalidArgument):
        await pid_of(store, text)


@pytest.mark.parametrize("text", ["13.4", "13.x", "13.99"])
async def test_st_4_unknown_tasks_of_a_known_array_are_errors(store: Store, text: str) -> None:
    await save(store, job(13, array=ArrayRange(5, 7)), Tasks(job=13, first=5, last=7, status=WAITING))
    with pytest.raises(InvalidArgument):
        await pid_of(store, text)


async def test_st_5_every_task_of_an_array_is_known(store: Store) -> None:
    await save(store, job(13, array=ArrayRange(1, 3)), Tasks(job=13, first=1, last=3, status=WAITING))
    for index in (1, 2, 3):
        assert await pid_of(store, f"13.{index}") is None


async def test_st_6_removing_forgets_just_what_was_removed(store: Store) -> None:
    await save(store, job(13, array=ArrayRange(1, 3)), Tasks(job=13, first=1, last=3, status=WAITING))
    await save(store, job(77, array=ArrayRange(1, 3)), Tasks(job=77, first=1, last=3, status=WAITING))
    await store.commit(Batch(reaped=[13]))
    for index in (1, 2, 3):
        with pytest.raises(InvalidArgument):
            await pid_of(store, f"13.{index}")
    assert await pid_of(store, "77.2") is None
    assert [found.id for found, _ in await store.load_active()] == [77]


async def test_st_7_one_task_gets_its_pid_later(store: Store) -> None:
    await save(store, job(13, array=ArrayRange(1, 3)), Tasks(job=13, first=1, last=3, status=WAITING))
    parts = [
        Tasks(job=13, first=1, last=1, status=WAITING),
        running(13, "55", 2, 2),
        Tasks(job=13, first=3, last=3, status=WAITING),
    ]
    await store.commit(Batch(tasks={(run.job, run.first): run for run in parts}))
    assert [await pid_of(store, f"13.{index}") for index in (1, 2, 3)] == [None, "55", None]


async def test_st_8_tasks_come_in_order_of_index(store: Store) -> None:
    runs = [running(13, str(index), index, index) for index in (10, 2, 1, 11, 3)]
    await save(store, job(13, array=ArrayRange(1, 11)), *runs)
    found = await store.find(13)
    assert found is not None
    assert [run.first for run in found[1]] == [1, 2, 3, 10, 11]
    assert [tasks.first for _, tasks in await store.load_active()] == [1, 2, 3, 10, 11]


async def test_st_9_everything_known_of_an_end_survives(store: Store) -> None:
    ended = Ended(
        JobState.FAILED,
        Exited(3),
        9.0,
        native_id="7",
        dispatch_time=2.0,
        wallclock_time=7.0,
        machines=("a", "b"),
        usage=Usage(1.5, 0.5, 4096, 8, 16),
        sub_state="terminated",
        annotation="why",
    )
    tasks = Tasks(job=1, attempt=2, status=ended, cause="terminated")
    await save(store, job(1, labels={"a": "1", 'odd"$.': "2"}), tasks)
    assert await store.find(1) == (job(1, labels={"a": "1", 'odd"$.': "2"}), [tasks])


async def test_st_10_an_unknown_job_has_nothing(store: Store) -> None:
    assert await store.find(99) is None


async def test_st_11_without_a_place_there_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(DrmCommunication, match=r"jobd\.db"):
        async with Store.open(tmp_path / "nowhere"):
            pass
