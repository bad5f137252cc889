"""One group of changes on its way to the store, staged against an overlay: memory changes after the commit only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobd.backends.base import FreedSeen, Observation
from jobd.bookkeeper import transitions
from jobd.bookkeeper.picture import Change, Entry, Picture, cut_out, replace_run, rest_of
from jobd.model.ids import JobId
from jobd.model.job import Event, Job, Tasks
from jobd.store import Batch


class Counters:
    """The last numbers given to jobs and events."""

    def __init__(self, job: int = 0, event: int = 0) -> None:
        self.job = job
        self.event = event


class Transaction:
    """Stages steps: each is checked, becomes rows of the batch, an event, and a change to apply after the commit."""

    def __init__(self, picture: Picture, counters: Counters, now: float) -> None:
        self.now = now
        self.batch = Batch()
        self.changes: list[Change] = []
        self.freed: list[JobId] = []
        self._picture = picture
        self._overlay: dict[int, Entry] = {}
        self.counters = Counters(counters.job, counters.event)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.changes or self.batch)

    def entry(self, job: int) -> Entry | None:
        """A job as this transaction sees it; None if it is not active."""
        return self._overlay.get(job) or self._picture.get(job)

    def run_at(self, id: JobId) -> Tasks | None:
        """The active task with that id, as this transaction sees it."""
        entry = self.entry(id.job)
        if entry is None:
            return None
        found = [run for run in entry.runs if run.first <= id.task <= run.last]
        return cut_out(found[0], id.task) if found else None

    def submit(self, job: Job, tasks: Tasks) -> None:
        """A new job."""
        self.batch.jobs.append(job)
        self._overlay[job.id] = Entry(job, ())
        self.step(job, None, tasks)

    def observe(self, observations: Iterable[Observation]) -> None:
        """What a backend saw. What says nothing new, or is about nothing active, changes nothing."""
        for seen in observations:
            if isinstance(seen, FreedSeen):
                self.freed.append(seen.id)
                continue
            entry = self.entry(seen.id.job)
            run = self.run_at(seen.id)
            if entry is None or run is None:
                continue
            for after in transitions.observed(entry.job, run, seen):
                self.step(entry.job, run, after)
                run = after

    def step(self, job: Job, before: Tasks | None, after: Tasks) -> None:
        """Take one step: ``after`` covers some or all of the indices of the run that ``before`` was cut from."""
        entry = self.entry(job.id)
        runs = entry.runs if entry else ()
        whole = next((run for run in runs if run.first <= after.first <= run.last), None)
        for part in rest_of(whole, after):
            self.batch.tasks[part.job, part.first] = part
        self.batch.tasks[after.job, after.first] = after
        self._overlay[job.id] = Entry(job, replace_run(runs, whole, after))
        self.changes.append(Change(job, before, after))
        if before is None or before.state is not after.state:
            self._publish(before, after)

    def write_cause(self, job: Job, run: Tasks, cause: str) -> None:
        """Why it is about to be ended, on record before the first signal; a cause that is there already stays."""
        if run.cause is None:
            self.step(
                job,
                run,
                Tasks(
                    job=run.job,
                    first=run.first,
                    last=run.last,
                    attempt=run.attempt,
                    status=run.status,
                    cause=cause,
                ),
            )

    def _publish(self, before: Tasks | None, after: Tasks) -> None:
        self.counters.event += 1
        event = Event(
            seq=self.counters.event,
            job=after.job,
            first=after.first,
            last=after.last,
            before=None if before is None else before.state,
            after=after.state,
            sub_state=after.status.sub_state,
            at=self.now,
        )
        self.batch.events.append(event)

    def seal(self) -> Batch:
        """The batch with the counters that it moves."""
        counters = self.counters
        self.batch.counters = {"job": counters.job, "event": counters.event}
        return self.batch

    def apply(self) -> None:
        """After the commit: memory takes the overlay over."""
        for entry in self._overlay.values():
            self._picture.put(entry)

    @property
    def events(self) -> Sequence[Event]:
        """The events of this transaction, in order."""
        return self.batch.events
