"""Bookkeeper and store against a model, by property: whatever comes, in whatever order, with crashes in between."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jobd.backends.base import ContinuedSeen, EndedSeen, Observation, RefusedSeen, StartedSeen, StoppedSeen
from jobd.bookkeeper import Bookkeeper, transitions
from jobd.bookkeeper.commands import ChangeTasks, NewJob, Reap, Submit
from jobd.model.errors import Internal, InvalidState
from jobd.model.ids import JobId
from jobd.model.job import Job, Owner, Tasks
from jobd.model.states import JobState
from jobd.model.status import Exited, Signalled
from jobd.model.template import JobTemplate
from jobd.scheduler import Scheduler
from jobd.store import Store

SLOTS = 2
OWNER = Owner(1000, "somebody")
OUTCOMES = st.sampled_from([Exited(0), Exited(3), Signalled("SIGKILL")])


class Poison:
    """A command whose change the schema refuses: a job id that is there already."""

    def stage(self, transaction: Any) -> None:
        job = Job(
            id=1,
            owner=OWNER,
            session="default",
            backend="local",
            queue="default",
            template=JobTemplate(remote_command="true"),
            environment=None,
            submission_time=0.0,
            submission_machine="here",
        )
        transaction.batch.jobs.append(job)


class Life:
    """One life of a daemon's core: a store, a bookkeeper and its loop, until it is dropped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.started: list[tuple[JobId, int]] = []

    async def run(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        async def no_shortage() -> None:
            return None

        async with Store.open(self._folder) as store, anyio.create_task_group() as tasks:
            self.store = store
            self.book = Bookkeeper(store, Scheduler(SLOTS), lambda: 1000.0, no_shortage, lambda job: "keeper")
            await self.book.load()
            tasks.start_soon(self.book.run)
            self.book.start_with(self._start)
            self._stop = anyio.Event()
            task_status.started()
            await self._stop.wait()
            tasks.cancel_scope.cancel()

    def _start(self, intents: Sequence[tuple[Job, Tasks]]) -> None:
        self.started += [(tasks.id, tasks.attempt) for _, tasks in intents]

    async def stop(self) -> None:
        self._stop.set()


class Machine(RuleBasedStateMachine):
    """The model: each job's state as DRMAA2 has it, and what was published."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="jobd-machine-"))
        self.portal_context = start_blocking_portal()
        self.portal: BlockingPortal = self.portal_context.__enter__()
        self.states: dict[int, JobState] = {}
        self.attempts: dict[int, int] = {}
        self.reaped: set[int] = set()
        self.last = 0
        self.published = 0
        self.granted: set[int] = set()
        self.open()

    def open(self) -> None:
        self.life = Life(self.folder)
        self.running, _ = self.portal.start_task(self.life.run)
        self.take_starts()

    def take_starts(self) -> None:
        """Starts are given in order of submission, and never twice."""
        for id, attempt in self.life.started:
            assert self.states[id.job] is JobState.QUEUED
            assert id.job not in self.granted
            self.granted.add(id.job)
            self.attempts[id.job] = attempt
        self.life.started.clear()

    def ask(self, command: Any) -> Any:
        result = self.portal.call(self.life.book.ask, command)
        self.portal.call(anyio.lowlevel.checkpoint)
        self.take_starts_later()
        return result

    def take_starts_later(self) -> None:
        self.portal.call(self.settle)
        self.take_starts()

    async def settle(self) -> None:
        """Until the loop has nothing more to do: a command that changes nothing comes after all that was decided."""
        await self.life.book.observe([])

    def observe(self, *seen: Observation) -> None:
        self.portal.call(self.life.book.observe, list(seen))
        self.portal.call(self.settle)

    def pick(self, data: Any, fits: Callable[[int], bool]) -> int | None:
        found = sorted(id for id in self.states if fits(id))
        return data.draw(st.sampled_from(found)) if found else None

    @rule(count=st.integers(1, 3), held=st.booleans())
    def submit(self, count: int, held: bool) -> None:
        template = JobTemplate(remote_command="true", submit_as_hold=held or None)
        new = [NewJob(template=template, session="default", backend="local", queue="default")] * count
        command = Submit(
            owner=OWNER,
            machine="here",
            jobs=new,
            request_id=None,
            digest=b"",
            recent_requests=self.life.book.recent_requests,
        )
        ids = self.portal.call(self.life.book.ask, command)
        assert list(ids) == list(range(self.last + 1, self.last + 1 + count)), "ids are given in order, and never again"
        self.last += count
        for id in ids:
            self.states[id] = JobState.QUEUED_HELD if held else JobState.QUEUED
            self.published += 1
        self.take_starts_later()

    @rule(data=st.data())
    def start(self, data: Any) -> None:
        id = self.pick(data, lambda id: id in self.granted and self.states[id].waiting)
        if id is not None:
            seen = StartedSeen(id=JobId(id), attempt=self.attempts[id], native_id="7", at=1.0, machine="here")
            self.observe(seen, seen)
            self.states[id] = JobState.RUNNING
            self.published += 1

    @rule(data=st.data(), stop=st.booleans())
    def stop_or_continue(self, data: Any, stop: bool) -> None:
        wanted = JobState.RUNNING if stop else JobState.SUSPENDED
        id = self.pick(data, lambda id: self.states[id] is wanted)
        if id is not None:
            kind = StoppedSeen if stop else ContinuedSeen
            self.observe(kind(JobId(id), self.attempts[id]))
            self.states[id] = JobState.SUSPENDED if stop else JobState.RUNNING
            self.published += 1

    @rule(data=st.data(), outcome=OUTCOMES)
    def end(self, data: Any, outcome: Any) -> None:
        id = self.pick(data, lambda id: self.states[id].started)
        if id is not None:
            seen = EndedSeen(id=JobId(id), attempt=self.attempts[id], outcome=outcome, at=5.0, wallclock_time=2.0)
            self.observe(seen, seen)
            self.states[id] = JobState.DONE if outcome == Exited(0) else JobState.FAILED
            self.granted.discard(id)
            self.published += 1
            self.take_starts()

    @rule(data=st.data())
    def refuse(self, data: Any) -> None:
        id = self.pick(data, lambda id: id in self.granted and self.states[id].waiting)
        if id is not None:
            self.granted.discard(id)
            self.observe(RefusedSeen(JobId(id), self.attempts[id]))
            self.take_starts()

    @rule(data=st.data(), hold=st.booleans())
    def hold_or_release(self, data: Any, hold: bool) -> None:
        wanted = JobState.QUEUED if hold else JobState.QUEUED_HELD
        id = self.pick(data, lambda id: id not in self.granted)
        if id is None:
            return
        change = transitions.hold if hold else transitions.release
        command = ChangeTasks(JobId(id), lambda tasks, now: change(tasks))
        if self.states[id] is not wanted:
            with pytest.raises(InvalidState):
                self.portal.call(self.life.book.ask, command)
            return
        self.states[id] = JobState.QUEUED_HELD if hold else JobState.QUEUED
        self.published += 1
        self.ask(command)

    @rule(data=st.data())
    def reap(self, data: Any) -> None:
        id = self.pick(data, lambda id: True)
        if id is None:
            return
        if not self.states[id].final:
            with pytest.raises(InvalidState):
                self.portal.call(self.life.book.ask, Reap([id]))
            return
        self.ask(Reap([id]))
        del self.states[id]
        self.reaped.add(id)

    @precondition(lambda self: 1 in self.states)
    @rule()
    def one_poison_command_loses_nobody_else_s(self) -> None:
        """In one group: a command that the schema refuses, and a submission beside it."""
        template = JobTemplate(remote_command="true", submit_as_hold=True)
        new = [NewJob(template=template, session="default", backend="local", queue="default")]

        async def both() -> tuple[Any, Any]:
            book, results = self.life.book, {}

            async def ask(name: str, command: Any) -> None:
                try:
                    results[name] = await book.ask(command)
                except Internal as error:
                    results[name] = error

            submit = Submit(
                owner=OWNER, machine="here", jobs=new, request_id=None, digest=b"", recent_requests=book.recent_requests
            )
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, "poison", Poison())
                tasks.start_soon(ask, "submit", submit)
            return results["poison"], results["submit"]

        poison, ids = self.portal.call(both)
        assert isinstance(poison, Internal)
        assert list(ids) == [self.last + 1]
        self.last += 1
        self.states[self.last] = JobState.QUEUED_HELD
        self.published += 1
        self.take_starts_later()

    @rule(crash=st.booleans())
    def reopen(self, crash: bool) -> None:
        """Stop and open again; a crash leaves the files as a killed process would, with the WAL."""
        left = Path(tempfile.mkdtemp(prefix="jobd-machine-"))
        for file in self.folder.iterdir():
            shutil.copy(file, left)
        self.portal.call(self.life.stop)
        self.running.result()
        if crash:
            self.folder, left = left, self.folder
        shutil.rmtree(left)
        self.open()

    @invariant()
    def everything_agrees(self) -> None:
        if not hasattr(self, "life"):
            return
        book, store = self.life.book, self.life.store
        active = {entry.job.id: entry.runs[0].state for entry in book.picture}
        assert active == {id: state for id, state in self.states.items() if not state.final}
        rows = self.portal.call(store.load_active)
        assert {job.id: tasks.state for job, tasks in rows} == active
        ended = self.portal.call(lambda: store.finished(None, None))
        assert {job.id: tasks.state for job, tasks in ended} == {id: s for id, s in self.states.items() if s.final}
        held_slots = sum(1 for id in self.states if id in self.granted)
        assert held_slots <= SLOTS + 64
        events = self.portal.call(store.events, 0, 100_000)
        assert [event.seq for event in events] == list(range(1, self.published + 1)), "no gap, nothing twice"
        assert book.events.last == self.published

    def teardown(self) -> None:
        if hasattr(self, "life"):
            self.portal.call(self.life.stop)
            self.running.result()
            self.portal_context.__exit__(None, None, None)
            shutil.rmtree(self.folder)


Machine.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestBookkeeperAndStore = Machine.TestCase
