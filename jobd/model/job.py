"""A job as the daemon holds it: what was submitted, which never changes, and where each run of tasks stands."""

from __future__ import annotations

import msgspec

from jobd.model.ids import JobId
from jobd.model.states import JobState
from jobd.model.status import Status
from jobd.model.template import ArrayRange, JobTemplate


class Owner(msgspec.Struct, frozen=True):
    """Whose job it is: the uid that the kernel gave for the submitting connection, and its name."""

    uid: int
    name: str


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A submission. Nothing in it changes; ``template`` has the captured working directory and umask filled in.

    ``environment`` is the digest of the stored environment (captured, filtered by env_mode), None for the minimal one.
    Times are seconds since the epoch.
    """

    id: int
    owner: Owner
    session: str
    backend: str
    queue: str
    template: JobTemplate
    environment: str | None
    submission_time: float
    submission_machine: str
    retry_of: str | None = None

    @property
    def slots(self) -> int:
        """How many slots each task takes."""
        return self.template.slots or self.template.min_slots or 1

    @property
    def array(self) -> ArrayRange | None:
        """The indices, where it is an array."""
        return self.template.array


class Tasks(msgspec.Struct, frozen=True, kw_only=True):
    """A run of tasks that stand alike: indices ``first`` to ``last`` of an array, or 0 to 0 for a single job.

    ``attempt`` counts starts that were intended, from 1; 0 before the first intent. ``cause`` is why jobd is ending it
    (terminated, time-limit, deadline), committed before the first signal; None otherwise.
    """

    job: int
    first: int = 0
    last: int = 0
    attempt: int = 0
    status: Status
    cause: str | None = None

    @property
    def id(self) -> JobId:
        """The id of a single job or single task."""
        return JobId(self.job, self.first)

    @property
    def state(self) -> JobState:
        """The state they are in."""
        return self.status.state


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A transition of a job or of a run of an array's tasks, as published and kept.

    ``seq`` is global and without gaps; ``before`` is None for a submission. ``at`` is seconds since the epoch.
    """

    seq: int
    job: int
    first: int
    last: int
    before: JobState | None
    after: JobState
    sub_state: str | None
    at: float
