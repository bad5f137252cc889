"""The store against a dict, by property: commits, batches that are refused, crashes and reopening in any order."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from jobd.model.errors import Internal
from jobd.model.job import Event, Job, Tasks
from jobd.store import Batch, Request, Session, Store
from tests.store.making import OWNER, event, job, runs_of, waiting

ENVIRONMENTS = {"d1": b"A=1", "d2": b"B=\xff\0C="}
NAMES = ["a", "b"]
SPARE, STEP = 2, 3  # as the fixture small_steps has them


@asynccontextmanager
async def quick(folder: Path) -> AsyncIterator[Store]:
    """A store that doesn't wait for the disk: nothing here pulls the plug, and each example commits often."""
    async with Store.open(folder) as store:
        await store._writing.run(lambda connection: connection.execute("PRAGMA synchronous = OFF"))
        yield store


class Model:
    """What the store must know."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.tasks: dict[int, Tasks] = {}
        self.events: dict[int, Event] = {}
        self.sessions: dict[str, Session] = {}
        self.requests: dict[str, Request] = {}
        self.last_job = 0
        self.last_event = 0
        self.floor = 1
        self.generation = 0

    @property
    def environments(self) -> set[str]:
        """Those that a job refers to."""
        return {one.environment for one in self.jobs.values() if one.environment is not None}


class Machine(RuleBasedStateMachine):
    """Each rule changes store and model alike; then both are asked the same."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="jobd-store-"))
        self.portal_context = start_blocking_portal()
        self.portal: BlockingPortal = self.portal_context.__enter__()
        self.model = Model()
        self.open()

    def open(self) -> None:
        opened = self.portal.wrap_async_context_manager(quick(self.folder))
        self.opened: AbstractContextManager[Store] = opened
        self.store = opened.__enter__()

    def close(self) -> None:
        self.opened.__exit__(None, None, None)

    def stage_submission(self, count: int, environment: str | None, request: str | None) -> Batch:
        """A batch as the bookkeeper makes it; the model is not told yet."""
        batch = Batch()
        first = self.model.last_job + 1
        for number in range(first, first + count):
            batch.jobs.append(job(number, environment=environment))
            batch.tasks[number, 0] = waiting(number)
            batch.events.append(event(self.model.last_event + number - first + 1, number))
        if environment is not None:
            batch.environments[environment] = ENVIRONMENTS[environment]
        if request is not None:
            batch.requests.append(Request(OWNER.uid, request, b"d", first, first + count - 1, 1.0))
        batch.counters = {"job": first + count - 1, "event": self.model.last_event + count}
        return batch

    def accept(self, batch: Batch) -> None:
        """It was committed: now the model knows it, too."""
        model = self.model
        model.jobs |= {one.id: one for one in batch.jobs}
        model.tasks |= {run.job: run for run in batch.tasks.values()}
        model.events |= {one.seq: one for one in batch.events}
        model.sessions |= {one.name: one for one in batch.sessions_created}
        model.requests |= {one.request_id: one for one in batch.requests}
        for _, name in batch.sessions_destroyed:
            model.sessions.pop(name, None)
        for number in batch.reaped:
            model.jobs.pop(number, None)
            model.tasks.pop(number, None)
            model.events = {s: e for s, e in model.events.items() if e.job != number or s >= model.floor}
        model.last_job = batch.counters.get("job", model.last_job)
        model.last_event = batch.counters.get("event", model.last_event)

    def commit(self, batch: Batch) -> None:
        self.portal.call(self.store.commit, batch)
        self.accept(batch)

    @rule(
        count=st.integers(1, 3),
        environment=st.none() | st.sampled_from(sorted(ENVIRONMENTS)),
        request=st.none() | st.sampled_from(NAMES),
    )
    def submit(self, count: int, environment: str | None, request: str | None) -> None:
        self.commit(self.stage_submission(count, environment, None if request in self.model.requests else request))

    @rule(data=st.data(), count=st.integers(1, 4))
    def progress(self, data: st.DataObject, count: int) -> None:
        """Several runs in one group, each to anything that a run may be."""
        batch = Batch()
        for number in sorted(self.model.jobs)[-count:]:
            batch.tasks[number, 0] = data.draw(runs_of(number))
            seq = self.model.last_event + len(batch.events) + 1
            before, after = self.model.tasks[number].state, batch.tasks[number, 0].state
            batch.events.append(event(seq, number, after, before))
        batch.counters["event"] = self.model.last_event + len(batch.events)
        self.commit(batch)

    @rule(data=st.data())
    def reap(self, data: st.DataObject) -> None:
        numbers = data.draw(st.sets(st.sampled_from([0, *self.model.jobs]), max_size=3))
        self.commit(Batch(reaped=sorted(numbers)))

    @rule(name=st.sampled_from(NAMES))
    def create_or_destroy_a_session(self, name: str) -> None:
        if name in self.model.sessions:
            self.commit(Batch(sessions_destroyed=[(OWNER.uid, name)]))
        else:
            self.commit(Batch(sessions_created=[Session(OWNER.uid, name, f"contact of {name}", 1.0)]))

    @rule(poison=st.sampled_from(["job", "event", "request", "session", "size", "surrogate"]))
    def a_poisoned_batch_changes_nothing(self, poison: str) -> None:
        """Everything in it is good but one thing; it is the last to be written of its kind."""
        batch, model = self.stage_submission(2, "d1", None), self.model
        batch.reaped = list(model.jobs)
        batch.sessions_destroyed = [(OWNER.uid, name) for name in model.sessions]
        if poison == "job":
            batch.jobs *= 2
        elif poison == "event":
            batch.events *= 2
        elif poison == "request":
            batch.requests = [Request(OWNER.uid, "poison", b"", 1, 1, 1.0)] * 2
        elif poison == "session":
            batch.sessions_created = [Session(OWNER.uid, "poison", "", 1.0)] * 2
        elif poison == "size":
            batch.counters["event"] = 2**63
        else:
            batch.sessions_created = [Session(OWNER.uid, "\udcff", "", 1.0)]
        with pytest.raises(Internal):
            self.portal.call(self.store.commit, batch)

    @rule()
    def trim(self) -> None:
        """Events go as far as the oldest finished job that is kept, but for those of jobs that are kept."""
        model = self.model
        ended = min((number for number, run in model.tasks.items() if run.state.final), default=None)
        kept = min((s for s, e in model.events.items() if e.job == ended), default=model.last_event + 1)
        goal = min(kept, model.last_event + 1 - SPARE)
        reached = max(model.floor, min(goal, model.floor + STEP))
        more = self.portal.call(self.store.trim_events)
        assert more == (min(goal, model.floor + STEP) < goal)
        model.events = {s: e for s, e in model.events.items() if e.job in model.jobs or not model.floor <= s < reached}
        model.floor = reached

    @rule(crash=st.booleans())
    def reopen(self, crash: bool) -> None:
        """Close and open again; a crash leaves the files as a killed process would, with the WAL."""
        folder = self.folder
        if crash:
            folder = Path(tempfile.mkdtemp(prefix="jobd-store-"))
            for name in ("jobd.db", "jobd.db-wal"):
                shutil.copy(self.folder / name, folder)
        self.close()
        if crash:
            shutil.rmtree(self.folder)
            self.folder = folder
        self.open()
        self.model.generation += 1
        assert self.portal.call(self.store.generation) == self.model.generation

    @invariant()
    def everything_agrees(self) -> None:
        if not hasattr(self, "store"):
            return
        model, store, ask = self.model, self.store, self.portal.call
        records = [(model.jobs[number], model.tasks[number]) for number in sorted(model.jobs)]
        assert ask(store.load_active) == [record for record in records if not record[1].state.final]
        finished = [record for record in reversed(records) if record[1].state.final]
        assert ask(store.finished, None, None) == finished
        assert ask(store.events, 0, 10_000) == [model.events[seq] for seq in sorted(model.events)]
        assert ask(store.first_event) == model.floor
        assert ask(store.newest_job, OWNER.uid) == max(model.jobs, default=None)
        assert {one.name: one for one in ask(store.sessions, OWNER.uid)} == model.sessions
        for name in NAMES:
            assert ask(store.request, OWNER.uid, name) == model.requests.get(name)
        counters = ask(store.counters)
        assert (counters["job"], counters["event"]) == (model.last_job, model.last_event)
        for digest, content in ENVIRONMENTS.items():
            if digest in model.environments:
                assert ask(store.environment, digest) == content
            else:
                with pytest.raises(KeyError):
                    ask(store.environment, digest)

    @invariant()
    def above_the_floor_the_log_is_whole(self) -> None:
        if hasattr(self, "store"):
            above = [seq for seq in sorted(self.model.events) if seq >= self.model.floor]
            assert above == list(range(self.model.floor, self.model.last_event + 1))

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.close()
            self.portal_context.__exit__(None, None, None)
            shutil.rmtree(self.folder)


Machine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)

TestStoreAgainstADict = pytest.mark.usefixtures("small_steps")(Machine.TestCase)
