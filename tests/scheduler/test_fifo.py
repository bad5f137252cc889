"""First come, first served: never more than there are slots, nobody overtakes, and grants ahead for short jobs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobd.model.ids import JobId
from jobd.model.job import Job, Owner, Tasks
from jobd.model.states import JobState
from jobd.model.status import Active, Ended, Exited, Waiting
from jobd.model.template import JobTemplate
from jobd.scheduler import Scheduler
from jobd.scheduler.ahead import MOST_AHEAD, AheadEstimate


def job(number: int, slots: int = 1) -> Job:
    """A job that wants so many slots."""
    return Job(
        id=number,
        owner=Owner(1, "o"),
        session="default",
        backend="local",
        queue="default",
        template=JobTemplate(remote_command="x", slots=slots),
        environment=None,
        submission_time=0.0,
        submission_machine="here",
    )


def queued(number: int, granted_to: str | None = None) -> Tasks:
    return Tasks(job=number, status=Waiting(JobState.QUEUED, granted_to=granted_to))


def held(number: int) -> Tasks:
    return Tasks(job=number, status=Waiting(JobState.QUEUED_HELD))


def running(number: int) -> Tasks:
    return Tasks(job=number, status=Active(JobState.RUNNING, "7", 1.0))


def done(number: int, seconds: float) -> Tasks:
    return Tasks(job=number, status=Ended(JobState.DONE, Exited(0), 2.0, wallclock_time=seconds))


class World:
    """A scheduler with what it was told."""

    def __init__(self, slots: int) -> None:
        self.scheduler = Scheduler(slots)
        self.jobs: dict[int, Job] = {}
        self.order: list[int] = []

    def submit(self, number: int, slots: int = 1) -> None:
        self.jobs[number] = job(number, slots)
        self.tell(queued(number))

    def tell(self, tasks: Tasks) -> None:
        self.scheduler.update(self.jobs[tasks.job], None, tasks)

    def start(self) -> list[int]:
        """Intend what may start."""
        chosen = [id.job for id in self.scheduler.starts()]
        for number in chosen:
            self.tell(queued(number, "k"))
        self.order += chosen
        return chosen


def test_in_order_and_within_the_slots() -> None:
    world = World(2)
    for number in range(1, 5):
        world.submit(number)
    assert world.start() == [1, 2]
    assert world.start() == []
    world.tell(done(1, 10.0))
    assert world.start() == [3]


def test_a_large_job_is_not_overtaken() -> None:
    world = World(2)
    world.submit(1)
    world.submit(2, slots=2)
    world.submit(3)
    assert world.start() == [1]
    assert world.start() == []
    assert "needs 2 of 2 slots, 1 free; it is next" in world.scheduler.explain(JobId(2))
    world.tell(done(1, 10.0))
    assert world.start() == [2]


def test_a_held_job_keeps_its_place() -> None:
    world = World(1)
    for number in (1, 2, 3):
        world.submit(number)
    assert world.start() == [1]
    world.tell(held(2))
    world.tell(queued(2))
    world.tell(done(1, 10.0))
    assert world.start() == [2]


def test_no_slots_drain() -> None:
    world = World(0)
    world.submit(1)
    assert world.start() == []
    world.scheduler.slots = 1
    assert world.start() == [1]


def test_what_an_ended_job_left_holds_its_slots() -> None:
    world = World(1)
    world.submit(1)
    world.submit(2)
    world.start()
    world.tell(done(1, 10.0))
    world.scheduler.linger(JobId(1), 1)
    assert world.start() == []
    world.scheduler.freed(JobId(1))
    world.scheduler.freed(JobId(1))
    assert world.start() == [2]


def test_a_pause_starts_nothing_and_says_why() -> None:
    world = World(1)
    world.submit(1)
    world.scheduler.paused = "the disk is full"
    assert world.start() == []
    assert "the disk is full" in world.scheduler.explain(JobId(1))


def test_short_jobs_are_granted_ahead_and_long_ones_are_not() -> None:
    world = World(2)
    for number in range(1, 300):
        world.submit(number)
    world.start()
    world.tell(done(1, 0.001))
    ahead = len(world.start())
    assert 2 <= ahead <= MOST_AHEAD + 1
    world.tell(done(2, 100.0))
    assert world.start() == []


@given(st.floats(0.0001, 100), st.integers(1, 64))
def test_the_estimate_is_bounded(seconds: float, slots: int) -> None:
    estimate = AheadEstimate()
    assert estimate.slots_ahead(slots) == 0
    estimate.ended(seconds)
    assert 0 <= estimate.slots_ahead(slots) <= MOST_AHEAD
    assert seconds < 1 or estimate.slots_ahead(slots) == 0


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from(["submit", "start", "end", "hold", "refuse"]), st.integers(0, 9)), max_size=60),
)
def test_never_more_than_there_are_and_each_at_most_once(slots: int, steps: list[tuple[str, int]]) -> None:
    world, holding, number = World(slots), dict[int, int](), 0
    for step, choice in steps:
        if step == "submit":
            number += 1
            world.submit(number, 1 + choice % slots)
        elif step == "start":
            for chosen in world.start():
                assert chosen not in holding
                holding[chosen] = world.jobs[chosen].slots
        elif holding:
            picked = sorted(holding)[choice % len(holding)]
            del holding[picked]
            world.tell(done(picked, 10.0) if step == "end" else held(picked) if step == "hold" else queued(picked))
            if step == "hold":
                world.tell(queued(picked))
        assert world.scheduler.used == sum(holding.values()) <= slots
