"""The job store: cases ST-1 to ST-11 of the reference's tests, on jobd's one store.

The reference keeps a pid for each job or task; here it is the ``native_id`` of a run. What the reference answers with
an error and -1 is None here, or no run with that index; what is no id at all is refused where ids are read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobd.backends.base import StartedSeen
from jobd.bookkeeper import Bookkeeper
from jobd.bookkeeper.commands import ChangeTasks
from jobd.model.errors import InvalidArgument, InvalidState, JobdError
from jobd.model.ids import JobId, parse_id
from jobd.model.info import info_of
from jobd.model.job import Job, Owner, Tasks
from jobd.model.states import JobState
from jobd.model.status import Active, Ended, Signalled, Usage, Waiting
from jobd.model.template import ArrayRange, JobTemplate
from jobd.scheduler import Scheduler
from jobd.store import Batch, Store

pytestmark = pytest.mark.anyio


def job(number: int, command: str = "true", **template: Any) -> Job:
    return Job(
        id=number,
        owner=Owner(1000, "somebody"),
        session="default",
        backend="local",
        queue="default",
        template=JobTemplate(remote_command=command, **template),
        environment=None,
        submission_time=1.0,
        submission_machine="here",
    )


def run(number: int, pid: str | None = None, first: int = 0, last: int = 0) -> Tasks:
    """A run of tasks that wait, or that run with a pid."""
    status = Waiting(JobState.QUEUED) if pid is None else Active(JobState.RUNNING, pid, 2.0)
    return Tasks(job=number, first=first, last=last, status=status)


async def save(store: Store, jobs: list[Job], *runs: Tasks, removed: tuple[tuple[int, int], ...] = ()) -> None:
    await store.commit(Batch(jobs=jobs, tasks={(one.job, one.first): one for one in runs}, removed_tasks=list(removed)))


async def look(store: Store, text: str) -> Tasks | None:
    """The run that an id lies in."""
    id = parse_id(text)
    found = await store.find(id.job)
    runs = found[1] if found else []
    return next((one for one in runs if one.first <= id.task <= one.last), None)


async def pid_of(store: Store, text: str) -> str | None:
    """The reference's pid look-up."""
    found = await look(store, text)
    return getattr(found.status, "native_id", None) if found else None


async def all_ids(store: Store) -> list[str]:
    """Each job, and each task of an array, as a list shows them."""
    return [
        str(JobId(job.id, task)) for job, one in await store.load_active() for task in range(one.first, one.last + 1)
    ]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("order", [(12, 13, 77), (77, 12, 13), (13, 77, 12)])
async def test_st_1_pid_and_template_by_id_whatever_the_order_of_saving(store: Store, order: tuple[int, ...]) -> None:
    for number in order:
        await save(store, [job(number, f"command-{number}")], run(number, f"{number}00"))
    for number in order:
        found = await store.find(number)
        assert found is not None
        assert found[0].template == JobTemplate(remote_command=f"command-{number}")
        assert await pid_of(store, str(number)) == f"{number}00"


async def test_st_2_an_unknown_job_has_no_pid(store: Store) -> None:
    assert await pid_of(store, "13") is None
    await save(store, [job(13)], run(13, "77"))
    assert await pid_of(store, "14") is None


@pytest.mark.parametrize("text", ["12.asdf", "..", "13.asdf", "13.", ".1", "", "13.-1", "013"])
async def test_st_3_what_is_no_id_is_refused(store: Store, text: str) -> None:
    await save(store, [job(13)], run(13, "77"))
    with pytest.raises(InvalidArgument):
        await pid_of(store, text)


async def test_st_4_an_unknown_task_of_a_known_array(store: Store) -> None:
    await save(store, [job(13, array=ArrayRange(2, 4))], run(13, "77", 2, 4))
    for text in ("13.1", "13.5", "13"):
        assert await look(store, text) is None
    assert await pid_of(store, "13.2") == "77"
    with pytest.raises(InvalidArgument):
        await pid_of(store, "13.x")


async def test_st_5_each_task_of_a_saved_array_is_known(store: Store) -> None:
    await save(store, [job(13, array=ArrayRange(1, 3))], run(13, None, 1, 3))
    for task in (1, 2, 3):
        assert await look(store, f"13.{task}") is not None


async def test_st_6_removing_a_task_and_an_array(store: Store) -> None:
    await save(store, [job(13), job(77)], run(13, None, 1, 3), run(77, None, 1, 3))
    # The run splits round the task, and the task's own row goes.
    await save(store, [], run(13, None, 1, 1), run(13, None, 2, 2), run(13, None, 3, 3))
    await save(store, [], removed=((13, 2),))
    assert await look(store, "13.2") is None
    assert [bool(await look(store, f"13.{task}")) for task in (1, 3)] == [True, True]
    assert await all_ids(store) == ["13.1", "13.3", "77.1", "77.2", "77.3"]
    await store.commit(Batch(reaped=[13]))
    assert [await look(store, f"13.{task}") for task in (1, 2, 3)] == [None, None, None]
    assert await store.find(13) is None
    assert await all_ids(store) == ["77.1", "77.2", "77.3"]


async def test_st_7_a_pid_that_comes_later_is_its_tasks_alone(store: Store) -> None:
    await save(store, [job(13)], run(13, None, 1, 3))
    assert await pid_of(store, "13.2") is None
    await save(store, [], run(13, None, 1, 1), run(13, "99", 2, 2), run(13, None, 3, 3))
    assert [await pid_of(store, f"13.{task}") for task in (1, 2, 3)] == [None, "99", None]


@pytest.mark.parametrize("id", [JobId(14, 1), JobId(13, 4)], ids=["unknown array", "unknown index"])
async def test_st_7_a_pid_for_what_is_not_there_is_refused(store: Store, id: JobId) -> None:
    """By the bookkeeper, which alone writes: a request is an error, and a backend's report of it changes nothing."""

    async def no_shortage() -> None:
        return None

    await save(store, [job(13, array=ArrayRange(1, 3))], run(13, None, 1, 3))
    book = Bookkeeper(store, Scheduler(1), lambda: 5.0, no_shortage, lambda job: None)
    await book.load()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(book.run)
        with pytest.raises(InvalidState):
            await book.ask(ChangeTasks(id, lambda before, now: before))
        await book.observe([StartedSeen(id=id, attempt=0, native_id="99", at=5.0, machine="here")])
        tasks.cancel_scope.cancel()
    assert await look(store, str(id)) is None
    assert await store.find(13) == (job(13, array=ArrayRange(1, 3)), [run(13, None, 1, 3)])
    assert await store.events(0, 10) == []


async def test_st_8_tasks_come_in_order_of_their_index(store: Store) -> None:
    runs = [run(13, None, task, task) for task in range(1, 13)]
    await save(store, [job(2), job(13), job(100)], *reversed(runs), run(2), run(100))
    found = await store.find(13)
    assert found is not None
    assert [one.first for one in found[1]] == list(range(1, 13))
    assert await all_ids(store) == ["2", *(f"13.{task}" for task in range(1, 13)), "100"]


async def test_st_9_job_info_comes_back_as_it_was(tmp_path: Path) -> None:
    one = job(13, labels={"project": "night"}, native={"key": "value"})
    status = Ended(
        JobState.FAILED,
        Signalled("SIGKILL", core_dumped=True),
        9.5,
        native_id="77",
        dispatch_time=2.5,
        wallclock_time=7.0,
        machines=("here", "there"),
        usage=Usage(1.5, 0.25, 4096, 8, 16),
        sub_state="terminated",
        annotation="why",
    )
    tasks = Tasks(job=13, attempt=1, status=status, cause="terminated")
    async with Store.open(tmp_path) as store:
        await save(store, [one], tasks)
    async with Store.open(tmp_path) as store:
        found = await store.find(13)
    assert found == (one, [tasks])
    info = info_of(found[0], found[1][0])
    assert info == info_of(one, tasks)
    assert (info.job_owner, info.terminating_signal, info.exit_status) == ("somebody", "SIGKILL", None)


async def test_st_10_an_unknown_id_has_neither_template_nor_info(store: Store) -> None:
    await save(store, [job(13)], run(13))
    assert await store.find(14) is None
    assert await look(store, "13.1") is None


async def test_st_11_a_store_without_a_place_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for place in (tmp_path / "none", file):
        with pytest.raises(JobdError):
            async with Store.open(place):
                pytest.fail("a store without a place")
    assert list(tmp_path.iterdir()) == [file]
