"""Which jobs a request is about: ids and ranges as people type them, ``last``, and selections by attribute."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from jobd.model.errors import InvalidArgument, JobdError, NotFound
from jobd.model.ids import JobId, parse_id
from jobd.model.job import Job, Tasks
from jobd.model.states import JobState
from jobd.rpc.context import Call

_RANGE = re.compile(r"([1-9][0-9]{0,18})-([1-9][0-9]{0,18})\Z", re.ASCII)


class Selection(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Jobs by id, or by what they are; several attributes narrow down, ids add."""

    ids: list[str] = []
    session: str | None = None
    labels: dict[str, str] = {}
    states: list[str] = []
    queue: str | None = None
    backend: str | None = None
    all: bool = False

    @property
    def by_attribute(self) -> bool:
        """Whether anything but ids selects."""
        return bool(self.all or self.session or self.labels or self.states or self.queue or self.backend)

    def wanted_states(self) -> frozenset[JobState]:
        """The states that it names, empty for any.

        Raises:
            InvalidArgument: there is no such state.
        """
        try:
            return frozenset(JobState[name.upper()] for name in self.states)
        except KeyError as error:
            names = ", ".join(state.name for state in JobState)
            raise InvalidArgument(f"there is no state {error.args[0]}", hint=f"states are {names}") from None


class Found(NamedTuple):
    """A job that exists, and the run of tasks that was meant."""

    job: Job
    tasks: Tasks


async def select(call: Call, selection: Selection, *, finished: bool = True) -> list[Found]:
    """The jobs of a selection, in order of id, each once.

    ``finished``: whether a selection by attribute takes finished jobs, too. Ids always do.

    Raises:
        InvalidArgument: nothing is selected, or an id can't be read.
        NotFound: no such job.
        DeniedByDrms: an id names another user's job.
    """
    if not selection.ids and not selection.by_attribute:
        raise InvalidArgument("no job was named", hint="give ids, last, or a selection such as --session or --all")
    found: dict[JobId, Found] = {}
    for text in selection.ids:
        for item in await _by_id(call, text):
            found[item.tasks.id] = item
    if selection.by_attribute:
        for item in await by_attribute(call, selection, finished=finished):
            found[item.tasks.id] = item
    return [found[id] for id in sorted(found)]


async def select_one(call: Call, text: str) -> Found:
    """The one job or task of an id.

    Raises:
        InvalidArgument: the text names several.
        NotFound: no such job.
        DeniedByDrms: it is another user's.
    """
    found = await _by_id(call, text)
    if len(found) != 1:
        raise InvalidArgument(f"{text} names {len(found)} jobs; name one")
    return found[0]


async def _by_id(call: Call, text: str) -> list[Found]:
    if text == "last":
        return await _exact(call, JobId(await _newest(call)))
    span = _RANGE.match(text)
    if span is not None:
        return await _in_range(call, text, int(span[1]), int(span[2]))
    return await _exact(call, parse_id(text))


async def _newest(call: Call) -> int:
    newest = await call.context.store.newest_job(call.owner.uid)
    if newest is None:
        raise NotFound("you have no jobs")
    return newest


async def _exact(call: Call, id: JobId) -> list[Found]:
    record = await call.context.bookkeeper.find(id)
    runs = [] if record is None else [run for run in record[1] if not id.task or run.first <= id.task <= run.last]
    if record is None or not runs:
        raise NotFound(f"there is no job {id}", hint="jobd list shows the ones there are", jobs=[str(id)])
    call.require(record[0])
    return [Found(record[0], run) for run in runs]


async def _in_range(call: Call, text: str, first: int, last: int) -> list[Found]:
    """Holes and other users' jobs are skipped; a range with nothing in it is an error."""
    if first > last:
        raise InvalidArgument(f"range {text} ends before it begins")
    active = [
        Found(entry.job, run)
        for entry in call.context.bookkeeper.picture
        if first <= entry.job.id <= last and call.may_see(entry.job)
        for run in entry.runs
    ]
    ended = await call.context.store.finished(None, None, owner_uid=_owner(call), ids=(first, last))
    found = merge(active, (Found(job, tasks) for job, tasks in ended))
    if not found:
        raise NotFound(f"there is no job from {first} to {last}")
    return found


async def by_attribute(
    call: Call, selection: Selection, *, finished: bool, limit: int | None = None, since: float | None = None
) -> list[Found]:
    """Active jobs by attribute, and the newest finished ones."""
    states = selection.wanted_states()
    active = [
        Found(entry.job, run)
        for entry in call.context.bookkeeper.picture
        if call.may_see(entry.job) and _fits(entry.job, selection) and _since(entry.job, since)
        for run in entry.runs
        if not states or run.state in states
    ]
    if not finished or (states and not any(state.final for state in states)):
        return active
    ended = await call.context.store.finished(
        None,
        limit,
        owner_uid=_owner(call),
        session=selection.session,
        states=states or None,
        backend=selection.backend,
        queue=selection.queue,
        labels=selection.labels or None,
        since=since,
    )
    return merge(active, (Found(job, tasks) for job, tasks in ended))


def merge(active: Iterable[Found], ended: Iterable[Found]) -> list[Found]:
    """Both in order of id. A job that ended between the two looks counts once, as ended."""
    found = {item.tasks.id: item for item in active}
    found.update({item.tasks.id: item for item in ended})
    return [found[id] for id in sorted(found)]


def _owner(call: Call) -> int | None:
    return None if call.peer_uid == 0 else call.owner.uid


def _fits(job: Job, selection: Selection) -> bool:
    return (
        selection.session in (None, job.session)
        and selection.queue in (None, job.queue)
        and selection.backend in (None, job.backend)
        and selection.labels.items() <= (job.template.labels or {}).items()
    )


def _since(job: Job, since: float | None) -> bool:
    return since is None or job.submission_time >= since


def error_row(id: JobId, error: JobdError) -> dict[str, object]:
    """How a verb on several jobs names one that failed."""
    return {"job_id": str(id), "error": error.to_wire()}
