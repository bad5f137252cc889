"""The daemon's picture of what is active, in memory: cost follows what has not ended, however much has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jobd.model.ids import JobId
from jobd.model.job import Job, Tasks


class Entry(NamedTuple):
    """An active job and its runs of tasks that have not ended, by index."""

    job: Job
    runs: tuple[Tasks, ...]


class Change(NamedTuple):
    """One step of one run of tasks. ``before`` is None for a submission."""

    job: Job
    before: Tasks | None
    after: Tasks


class Picture:
    """Active jobs by number. Entries are immutable and are replaced whole."""

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def get(self, job: int) -> Entry | None:
        """The entry of an active job, None for one that has ended or never was."""
        return self._entries.get(job)

    def put(self, entry: Entry) -> None:
        """Set a job's entry; one without active runs is dropped."""
        if entry.runs:
            self._entries[entry.job.id] = entry
        else:
            self._entries.pop(entry.job.id, None)

    def load(self, rows: Iterable[tuple[Job, Tasks]]) -> None:
        """Fill it from the store's active rows, in order of job and index."""
        for job, tasks in rows:
            known = self._entries.get(job.id)
            runs = known.runs if known else ()
            self._entries[job.id] = Entry(job, (*runs, tasks))

    def runs_of(self, id: JobId) -> tuple[Tasks, ...]:
        """The active runs that an id covers: one task's, or all of the job's."""
        entry = self._entries.get(id.job)
        if entry is None:
            return ()
        return entry.runs if not id.task else tuple(run for run in entry.runs if run.first <= id.task <= run.last)


def replace_run(runs: tuple[Tasks, ...], old: Tasks | None, new: Tasks) -> tuple[Tasks, ...]:
    """The runs with ``new`` in place of its part of ``old``; what has ended is left out.

    Where ``new`` covers only some of the indices of ``old``, the rest stays as it was.
    """
    if old is not None and len(runs) == 1 and old.first == new.first and old.last == new.last:
        return () if new.state.final else (new,)
    parts = [run for run in runs if old is None or run.first != old.first]
    parts += rest_of(old, new)
    if not new.state.final:
        parts.append(new)
    return tuple(sorted(parts, key=lambda run: run.first))


def rest_of(old: Tasks | None, new: Tasks) -> list[Tasks]:
    """What is left of ``old`` on both sides of ``new``."""
    if old is None:
        return []
    rest = []
    if old.first < new.first:
        rest.append(_cut(old, old.first, new.first - 1))
    if new.last < old.last:
        rest.append(_cut(old, new.last + 1, old.last))
    return rest


def cut_out(run: Tasks, index: int) -> Tasks:
    """The one task ``index`` of a run."""
    return run if run.first == run.last else _cut(run, index, index)


def _cut(run: Tasks, first: int, last: int) -> Tasks:
    return Tasks(job=run.job, first=first, last=last, attempt=run.attempt, status=run.status, cause=run.cause)
