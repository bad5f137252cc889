"""Publishing and waiting: cases PS-* of the reference's tests, on the real bookkeeper and store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from jobd.backends.base import EndedSeen, RefusedSeen, StartedSeen, StoppedSeen
from jobd.bookkeeper import Bookkeeper
from jobd.bookkeeper.commands import NewJob, Submit
from jobd.bookkeeper.waiters import in_state, parse_goal
from jobd.model.errors import InvalidState
from jobd.model.ids import JobId
from jobd.model.job import Owner
from jobd.model.states import JobState
from jobd.model.status import Exited
from jobd.model.template import JobTemplate
from jobd.scheduler import Scheduler
from jobd.store import Store

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def bookkeeper(folder: Path, jobs: int) -> AsyncIterator[Bookkeeper]:
    """A bookkeeper whose jobs were all granted."""

    async def no_shortage() -> None:
        return None

    async with Store.open(folder) as store, anyio.create_task_group() as tasks:
        book = Bookkeeper(store, Scheduler(100), lambda: 1.0, no_shortage, lambda job: "keeper")
        await book.load()
        tasks.start_soon(book.run)
        book.start_with(lambda intents: None)
        new = [NewJob(template=JobTemplate(remote_command="x"), session="default", backend="local", queue="default")]
        submit = Submit(
            owner=Owner(1, "o"), machine="here", jobs=new * jobs, request_id=None, digest=b"", recent_requests={}
        )
        await book.ask(submit)
        yield book
        tasks.cancel_scope.cancel()


def started(job: int) -> StartedSeen:
    return StartedSeen(id=JobId(job), attempt=1, native_id="7", at=1.0, machine="here")


def ended(job: int, status: int) -> EndedSeen:
    return EndedSeen(id=JobId(job), attempt=1, outcome=Exited(status), at=2.0, wallclock_time=1.0)


class Consumer:
    """Waits for a job to come to a state, in a task."""

    def __init__(self) -> None:
        self.got = False
        self.error: InvalidState | None = None
        self.scope = anyio.CancelScope()

    async def run(self, book: Bookkeeper, job: int, state: JobState) -> None:
        with self.scope:
            try:
                await book.wait([JobId(job)], in_state(state), any_of=False)
                self.got = True
            except InvalidState as error:
                self.error = error


async def test_ps_1_who_has_left_gets_nothing(tmp_path: Path) -> None:
    async with bookkeeper(tmp_path, 1) as book, anyio.create_task_group() as tasks:
        consumer = Consumer()
        tasks.start_soon(consumer.run, book, 1, JobState.RUNNING)
        await anyio.wait_all_tasks_blocked()
        assert len(book.waiters) == 1
        consumer.scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert len(book.waiters) == 0
        await book.observe([started(1)])
        assert not consumer.got


async def test_ps_2_to_4_consumers_get_what_they_asked_for(tmp_path: Path) -> None:
    async with bookkeeper(tmp_path, 2) as book, anyio.create_task_group() as tasks:
        wanted = [Consumer() for _ in range(3)]
        for consumer in wanted:
            tasks.start_soon(consumer.run, book, 1, JobState.RUNNING)
        for_done, other = Consumer(), Consumer()
        tasks.start_soon(for_done.run, book, 1, JobState.DONE)
        tasks.start_soon(other.run, book, 2, JobState.RUNNING)
        await anyio.wait_all_tasks_blocked()
        await book.observe([started(1)])
        await anyio.wait_all_tasks_blocked()
        assert [consumer.got for consumer in wanted] == [True] * 3
        assert [consumer.got for consumer in (for_done, other)] == [False, False]
        await book.observe([ended(1, 0)])
        await anyio.wait_all_tasks_blocked()
        assert for_done.got
        other.scope.cancel()


async def test_ps_5_interleaved_events_of_several_jobs(tmp_path: Path) -> None:
    async with bookkeeper(tmp_path, 3) as book, anyio.create_task_group() as tasks:
        wishes = [
            (2, JobState.RUNNING),
            (2, JobState.SUSPENDED),
            (2, JobState.FAILED),
            (3, JobState.RUNNING),
            (1, JobState.RUNNING),
        ]
        consumers = [Consumer() for _ in wishes]
        for consumer, (job, state) in zip(consumers, wishes, strict=True):
            tasks.start_soon(consumer.run, book, job, state)
        await anyio.wait_all_tasks_blocked()
        await book.observe([started(2), started(3), StoppedSeen(JobId(2), 1), ended(2, 1)])
        await anyio.wait_all_tasks_blocked()
        assert [consumer.got for consumer in consumers] == [True, True, True, True, False]
        consumers[-1].scope.cancel()


async def test_ps_6_requeued_may_be_followed_by_failed(tmp_path: Path) -> None:
    async with bookkeeper(tmp_path, 1) as book:
        rebooted = EndedSeen(id=JobId(1), attempt=1, outcome=Exited(1), at=2.0, sub_state="node-rebooted")
        await book.observe([started(1), rebooted])
        found = await book.find(JobId(1))
        assert found is not None
        assert found[1][0].state is JobState.FAILED, "not rerunnable"


async def test_ps_7_to_9_registering_for_a_finished_job(tmp_path: Path) -> None:
    async with bookkeeper(tmp_path, 1) as book:
        await book.observe([started(1), ended(1, 1)])
        for state in (JobState.RUNNING, JobState.DONE):
            with pytest.raises(InvalidState):
                await book.wait([JobId(1)], in_state(state), any_of=False)
        reached = await book.wait([JobId(1)], in_state(JobState.FAILED), any_of=False)
        assert reached[JobId(1)][1].state is JobState.FAILED


async def test_a_wait_that_becomes_impossible_is_an_error_at_once(tmp_path: Path) -> None:
    """The reference lets it run into its time-out, or for ever."""
    async with bookkeeper(tmp_path, 1) as book, anyio.create_task_group() as tasks:
        consumer = Consumer()
        tasks.start_soon(consumer.run, book, 1, JobState.DONE)
        await anyio.wait_all_tasks_blocked()
        await book.observe([started(1), ended(1, 1)])
        await anyio.wait_all_tasks_blocked()
        assert consumer.error is not None


async def test_a_start_that_came_back_is_intended_again_as_the_same_attempt(tmp_path: Path) -> None:
    async with bookkeeper(tmp_path, 1) as book:
        await book.observe([RefusedSeen(JobId(1), 1)])
        await book.observe([started(1)])
        reached = await book.wait([JobId(1)], parse_goal("started"), any_of=False)
        assert reached[JobId(1)][1].attempt == 1
