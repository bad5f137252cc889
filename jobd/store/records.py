"""Rows and what they mean: the model's values on one side, columns on the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from jobd.model.job import Event, Job, Owner, Tasks
from jobd.model.states import JobState
from jobd.model.status import (
    Active,
    Ended,
    Exited,
    NotStarted,
    Outcome,
    Signalled,
    Status,
    Undetermined,
    Unknown,
    Usage,
    Waiting,
)
from jobd.model.template import JobTemplate

JOB_COLUMNS = 12

_template = msgspec.json.Decoder(JobTemplate)
_encode = msgspec.json.Encoder().encode


class JobRows:
    """Rows of new jobs. Jobs of one group often share their template, which is encoded once."""

    def __init__(self) -> None:
        self._last: tuple[JobTemplate, str] | None = None

    def row(self, job: Job) -> tuple[Any, ...]:
        """The columns of ``insert_job``."""
        if self._last is None or self._last[0] is not job.template:
            self._last = job.template, _encode(job.template).decode()
        labels = job.template.labels
        return (
            job.id,
            job.owner.uid,
            job.owner.name,
            job.session,
            job.backend,
            job.queue,
            self._last[1],
            json.dumps(labels) if labels else None,
            job.environment,
            job.submission_time,
            job.submission_machine,
            job.retry_of,
        )


def job_of(row: Sequence[Any]) -> Job:
    """The job in the first columns of a row."""
    return Job(
        id=row[0],
        owner=Owner(row[1], row[2]),
        session=row[3],
        backend=row[4],
        queue=row[5],
        template=_template.decode(row[6]),
        environment=row[8],
        submission_time=row[9],
        submission_machine=row[10],
        retry_of=row[11],
    )


def task_row(tasks: Tasks) -> tuple[Any, ...]:
    """The columns of ``put_task``."""
    head = (tasks.job, tasks.first, tasks.last, int(tasks.state), tasks.attempt, tasks.cause)
    return head + _status_columns(tasks.status)


_NO_END = (None,) * 13


def _status_columns(status: Status) -> tuple[Any, ...]:
    """sub_state, annotation, granted_to, native_id, machines, dispatch_time, then the thirteen of an end."""
    match status:
        case Waiting():
            return (status.sub_state, None, status.granted_to, None, None, None, *_NO_END)
        case Active():
            machines = ",".join(status.machines)
            return (
                status.sub_state,
                None,
                status.granted_to,
                status.native_id,
                machines,
                status.dispatch_time,
                *_NO_END,
            )
        case Undetermined():
            return (
                status.sub_state,
                status.annotation,
                None,
                status.native_id,
                None,
                status.dispatch_time,
                *_NO_END,
            )
        case Ended():
            machines = ",".join(status.machines)
            head = (
                status.sub_state,
                status.annotation,
                None,
                status.native_id,
                machines,
                status.dispatch_time,
            )
            return head + _end_columns(status)


def _end_columns(status: Ended) -> tuple[Any, ...]:
    usage = status.usage
    return (
        status.finish_time,
        status.wallclock_time,
        *_outcome_columns(status.outcome),
        usage.user_time,
        usage.system_time,
        usage.max_rss,
        usage.in_block,
        usage.out_block,
    )


def _outcome_columns(outcome: Outcome) -> tuple[Any, ...]:
    """outcome, exit_status, terminating_signal, core_dumped, failed_step, failed_error."""
    match outcome:
        case Exited(code):
            return ("exited", code, None, None, None, None)
        case Signalled(signal, core_dumped):
            return ("signalled", None, signal, int(core_dumped), None, None)
        case NotStarted(step, error):
            return ("not-started", None, None, None, step, error)
        case Unknown():
            return ("unknown", None, None, None, None, None)


def tasks_of(row: Sequence[Any]) -> Tasks:
    """The run of tasks in a row of ``task``."""
    return Tasks(job=row[0], first=row[1], last=row[2], attempt=row[4], cause=row[5], status=_status_of(row))


def _status_of(row: Sequence[Any]) -> Status:
    state = JobState(row[3])
    sub_state, annotation, granted_to, native_id, machines, dispatch_time = row[6:12]
    names = tuple(machines.split(",")) if machines else ()
    if state.final:
        return Ended(
            state,
            _outcome_of(row[14:20]),
            row[12],
            native_id=native_id,
            dispatch_time=dispatch_time,
            wallclock_time=row[13],
            machines=names,
            usage=Usage(*row[20:25]),
            sub_state=sub_state,
            annotation=annotation,
        )
    if state.waiting:
        return Waiting(state, granted_to=granted_to, sub_state=sub_state)
    if state is JobState.UNDETERMINED:
        return Undetermined(annotation or "", native_id, dispatch_time, sub_state)
    return Active(state, native_id, dispatch_time, names, granted_to, sub_state)


def _outcome_of(columns: Sequence[Any]) -> Outcome:
    kind, code, signal, core_dumped, step, error = columns
    match kind:
        case "exited":
            return Exited(code)
        case "signalled":
            return Signalled(signal, bool(core_dumped))
        case "not-started":
            return NotStarted(step, error)
        case _:
            return Unknown()


def event_row(event: Event) -> tuple[Any, ...]:
    """The columns of ``insert_event``."""
    before = None if event.before is None else int(event.before)
    return (
        event.seq,
        event.job,
        event.first,
        event.last,
        before,
        int(event.after),
        event.sub_state,
        event.at,
    )


def event_of(row: Sequence[Any]) -> Event:
    """The event in a row."""
    return Event(
        seq=row[0],
        job=row[1],
        first=row[2],
        last=row[3],
        before=None if row[4] is None else JobState(row[4]),
        after=JobState(row[5]),
        sub_state=row[6],
        at=row[7],
    )
