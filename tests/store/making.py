"""Records for the store's tests: plain ones by name, and any that the model allows by hypothesis."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from hypothesis import strategies as st

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
from jobd.model.template import ArrayRange, Dependency, JobTemplate, RawBytes
from jobd.store import Batch

OWNER = Owner(1000, "somebody")
TEMPLATE = JobTemplate(remote_command="true")


def job(number: int, template: JobTemplate = TEMPLATE, **changed: Any) -> Job:
    """A submission."""
    values: dict[str, Any] = {
        "owner": OWNER,
        "session": "default",
        "backend": "local",
        "queue": "default",
        "environment": None,
        "submission_time": float(number),
        "submission_machine": "here",
    }
    return Job(id=number, template=template, **{**values, **changed})


def waiting(number: int, first: int = 0, last: int = 0) -> Tasks:
    """A run that is QUEUED."""
    return Tasks(job=number, first=first, last=last, status=Waiting(JobState.QUEUED))


def running(number: int, first: int = 0, last: int = 0, native_id: str = "77") -> Tasks:
    """A run that is RUNNING."""
    status = Active(JobState.RUNNING, native_id, 10.5, ("here",), "keeper-1", "starting")
    return Tasks(job=number, first=first, last=last, attempt=1, status=status)


def ended(number: int, first: int = 0, last: int = 0, at: float = 20.25, code: int = 0) -> Tasks:
    """A run that has ended by itself."""
    state = JobState.FAILED if code else JobState.DONE
    status = Ended(state, Exited(code), at, native_id="77", dispatch_time=10.5, machines=("here",))
    return Tasks(job=number, first=first, last=last, attempt=1, status=status)


def event(seq: int, number: int, after: JobState = JobState.QUEUED, before: JobState | None = None) -> Event:
    """A transition of a single job."""
    return Event(seq=seq, job=number, first=0, last=0, before=before, after=after, sub_state=None, at=float(seq))


def submission(*jobs: Job, first_event: int = 1) -> Batch:
    """What submitting jobs writes: each QUEUED, with its event."""
    batch = Batch(jobs=list(jobs), tasks={(one.id, 0): waiting(one.id) for one in jobs})
    batch.events = [event(seq, one.id) for seq, one in enumerate(jobs, first_event)]
    batch.counters = {"job": jobs[-1].id, "event": batch.events[-1].seq}
    return batch


def progress(*tasks: Tasks) -> Batch:
    """Where runs stand now."""
    return Batch(tasks={(run.job, run.first): run for run in tasks})


# What SQLite and JSON can hold: text without lone surrogates, 64-bit numbers, finite times.
_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_word = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=","), min_size=1, max_size=8)
_maybe_text = st.none() | _text
_number = st.integers(0, 2**63 - 1)
_time = st.floats(0, 4e9)
_maybe_time = st.none() | _time
_os_text = _text | st.builds(RawBytes, st.sampled_from(["/w==", "gIE=", ""]))

usages = st.builds(
    Usage,
    user_time=_maybe_time,
    system_time=_maybe_time,
    max_rss=st.none() | _number,
    in_block=st.none() | _number,
    out_block=st.none() | _number,
)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Exited, st.integers(0, 255)),
    st.builds(Signalled, _word, st.booleans()),
    st.builds(NotStarted, st.none() | _word, st.none() | _word),
    st.just(Unknown()),
)
_machines = st.lists(_word, max_size=3).map(tuple)
statuses: st.SearchStrategy[Status] = st.one_of(
    st.builds(Waiting, st.sampled_from([s for s in JobState if s.waiting]), _maybe_text, _maybe_text),
    st.builds(
        Active,
        st.sampled_from([s for s in JobState if s.started]),
        _text,
        _time,
        _machines,
        _maybe_text,
        _maybe_text,
    ),
    st.builds(
        Ended,
        st.sampled_from([s for s in JobState if s.final]),
        outcomes,
        _time,
        native_id=_maybe_text,
        dispatch_time=_maybe_time,
        wallclock_time=_maybe_time,
        machines=_machines,
        usage=usages,
        sub_state=_maybe_text,
        annotation=_maybe_text,
    ),
    st.builds(Undetermined, _text, _maybe_text, _maybe_time, _maybe_text),
)
templates = st.builds(
    JobTemplate,
    remote_command=_os_text,
    args=st.none() | st.lists(_os_text, max_size=3).map(tuple),
    job_environment=st.none() | st.dictionaries(_text, _os_text, max_size=2),
    slots=st.none() | st.integers(1, 64),
    start_time=st.none() | st.datetimes(timezones=st.just(UTC)),
    submit_as_hold=st.none() | st.booleans(),
    resource_limits=st.none() | st.dictionaries(_word, st.integers(-1, 2**40) | _text, max_size=2),
    time_limit=_maybe_time,
    after=st.none() | st.lists(st.builds(Dependency, _word), max_size=2).map(tuple),
    labels=st.none() | st.dictionaries(_text, _text, max_size=2),
    native=st.none() | st.dictionaries(_word, st.none() | _text | st.lists(st.booleans(), max_size=2), max_size=2),
    array=st.none() | st.builds(ArrayRange, st.integers(1, 9), st.integers(9, 99), st.integers(1, 3)),
)
owners = st.builds(Owner, st.integers(0, 2**32 - 1), _text)


def jobs_numbered(number: int) -> st.SearchStrategy[Job]:
    """Any submission under a number."""
    return st.builds(
        Job,
        id=st.just(number),
        owner=owners,
        session=_text,
        backend=_text,
        queue=_text,
        template=templates,
        environment=_maybe_text,
        submission_time=_time,
        submission_machine=_text,
        retry_of=_maybe_text,
    )


def runs_of(number: int) -> st.SearchStrategy[Tasks]:
    """Any state of a single job."""
    return st.builds(
        Tasks, job=st.just(number), attempt=st.integers(0, 9), status=statuses, cause=st.none() | st.just("terminated")
    )
