"""What one transaction writes."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from jobd.model.job import Event, Job, Tasks


class Session(msgspec.Struct, frozen=True):
    """A job session (DRMAA2): a name, unique for its owner, and a contact string kept as it was given."""

    owner_uid: int
    name: str
    contact: str
    created: float


class Request(msgspec.Struct, frozen=True):
    """What a request id gave: the jobs ``first`` to ``last``, for templates with this digest."""

    owner_uid: int
    request_id: str
    digest: bytes
    first: int
    last: int
    created: float


@dataclass
class Batch:
    """Everything of one transaction, filled by the bookkeeper.

    ``tasks`` holds the last word on each run, by job and first index, so that several steps within a group are one row;
    ``removed_tasks`` names, by the same key, runs that are no more, and comes before it. ``environments`` are those of
    the new jobs, by digest. ``reaped`` jobs go with all that belongs to them.
    """

    jobs: list[Job] = field(default_factory=list)
    tasks: dict[tuple[int, int], Tasks] = field(default_factory=dict)
    removed_tasks: list[tuple[int, int]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    environments: dict[str, bytes] = field(default_factory=dict)
    sessions_created: list[Session] = field(default_factory=list)
    sessions_destroyed: list[tuple[int, str]] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    reaped: list[int] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether it writes anything."""
        return bool(
            self.jobs
            or self.tasks
            or self.removed_tasks
            or self.events
            or self.sessions_created
            or self.sessions_destroyed
            or self.requests
            or self.reaped
        )
