"""JobInfo (DRMAA2 GFD.231, "JobInfo Structure"): the flat record that people and programs see, and its filter."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from jobd.model.ids import JobId
from jobd.model.job import Job, Tasks
from jobd.model.status import Active, Ended, Exited, NotStarted, Signalled, Undetermined, Waiting
from jobd.model.template import JobTemplate, Text, to_bytes, to_text


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One job or task. What is not known is None: an exit status is there only if the job really exited with one.

    Durations are seconds, sizes bytes. As a filter, None restricts nothing.
    """

    job_id: str | None = None
    job_name: Text | None = None
    session_name: str | None = None
    backend: str | None = None
    state: str | None = None
    sub_state: str | None = None
    exit_status: int | None = None
    terminating_signal: str | None = None
    core_dumped: bool | None = None
    start_error: str | None = None
    annotation: str | None = None
    allocated_machines: tuple[str, ...] | None = None
    submission_machine: str | None = None
    job_owner: str | None = None
    slots: int | None = None
    queue_name: str | None = None
    submission_time: datetime | None = None
    dispatch_time: datetime | None = None
    finish_time: datetime | None = None
    wallclock_time: float | None = None
    cpu_time: float | None = None
    max_rss: int | None = None
    user_time: float | None = None
    system_time: float | None = None
    in_block: int | None = None
    out_block: int | None = None
    native_id: str | None = None
    attempt: int | None = None
    labels: dict[str, str] | None = None
    retry_of: str | None = None


_AT_LEAST = ("wallclock_time", "cpu_time", "submission_time", "dispatch_time", "finish_time")
_SPECIAL = frozenset({*_AT_LEAST, "annotation", "allocated_machines", "labels"})
_EQUAL = tuple(name for name in JobInfo.__struct_fields__ if name not in _SPECIAL)


def matches(wanted: JobInfo, info: JobInfo) -> bool:
    """Whether ``info`` passes the filter ``wanted``, by DRMAA2's rules.

    Equality for most; the job's machines must be a superset of the wanted ones; durations and times at least the
    wanted; the annotation does not count; labels (jobd's) must all be there. None restricts nothing.
    """
    return (
        all(_equal(getattr(wanted, name), getattr(info, name)) for name in _EQUAL)
        and all(_at_least(getattr(wanted, name), getattr(info, name)) for name in _AT_LEAST)
        and set(wanted.allocated_machines or ()) <= set(info.allocated_machines or ())
        and (wanted.labels or {}).items() <= (info.labels or {}).items()
    )


def _equal(wanted: object, value: object) -> bool:
    return wanted is None or wanted == value


def _at_least(wanted: float | datetime | None, value: float | datetime | None) -> bool:
    return wanted is None or (value is not None and value >= wanted)  # type: ignore[operator]


def stamp(seconds: float | None) -> datetime | None:
    """A UTC datetime for seconds since the epoch."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def display_name(template: JobTemplate) -> Text:
    """The job's name; the last part of its command where it has none."""
    if template.job_name is not None:
        return template.job_name
    return to_text(to_bytes(template.remote_command).rstrip(b"/").rsplit(b"/", 1)[-1])


def info_of(job: Job, tasks: Tasks, index: int | None = None) -> JobInfo:
    """The JobInfo of a single job, or of one task (``index``) of a run that stand alike."""
    status = tasks.status
    common: dict[str, Any] = {
        "job_id": str(JobId(job.id, tasks.first if index is None else index)),
        "job_name": display_name(job.template),
        "session_name": job.session,
        "backend": job.backend,
        "state": status.state.name,
        "sub_state": status.sub_state,
        "submission_machine": job.submission_machine,
        "job_owner": job.owner.name,
        "slots": job.slots,
        "queue_name": job.queue,
        "submission_time": stamp(job.submission_time),
        "attempt": tasks.attempt,
        "labels": job.template.labels or {},
        "retry_of": job.retry_of,
    }
    match status:
        case Waiting():
            return JobInfo(**common)
        case Active():
            return JobInfo(
                **common,
                native_id=status.native_id,
                allocated_machines=status.machines,
                dispatch_time=stamp(status.dispatch_time),
            )
        case Undetermined():
            return JobInfo(
                **common,
                native_id=status.native_id,
                annotation=status.annotation,
                dispatch_time=stamp(status.dispatch_time),
            )
        case Ended():
            return _ended(common, status)


def _ended(common: dict[str, Any], status: Ended) -> JobInfo:
    usage, outcome = status.usage, status.outcome
    times = (usage.user_time, usage.system_time)
    return JobInfo(
        **common,
        exit_status=outcome.status if isinstance(outcome, Exited) else None,
        terminating_signal=outcome.signal if isinstance(outcome, Signalled) else None,
        core_dumped=outcome.core_dumped if isinstance(outcome, Signalled) else None,
        start_error=_start_error(outcome) if isinstance(outcome, NotStarted) else None,
        annotation=status.annotation,
        native_id=status.native_id,
        allocated_machines=status.machines,
        dispatch_time=stamp(status.dispatch_time),
        finish_time=stamp(status.finish_time),
        wallclock_time=status.wallclock_time,
        cpu_time=None if None in times else sum(time for time in times if time is not None),
        max_rss=usage.max_rss,
        user_time=usage.user_time,
        system_time=usage.system_time,
        in_block=usage.in_block,
        out_block=usage.out_block,
    )


def _start_error(outcome: NotStarted) -> str | None:
    """not-found and not-executable are the shell's 127 and 126; any other failed start is named by its errno."""
    if outcome.step in ("exec", "lookup"):
        return "not-found" if outcome.error in ("ENOENT", "ENOTDIR") else "not-executable"
    return outcome.error
