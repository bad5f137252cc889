"""Events as the client gives them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from jobd.model.states import JobState


class JobEvent(msgspec.Struct, frozen=True):
    """A state change. ``before`` is None for a submission; ``tasks`` is a range of an array's indices, None for one job."""

    seq: int
    job_id: str
    before: JobState | None
    after: JobState
    sub_state: str | None
    at: datetime
    tasks: str | None = None


class Truncated(msgspec.Struct, frozen=True):
    """Events before ``first`` were lost to retention."""

    first: int


def read_event(raw: dict[str, Any]) -> JobEvent | Truncated:
    """An event from the wire."""
    if raw.get("truncated"):
        return Truncated(raw["first"])
    return JobEvent(
        seq=raw["seq"],
        job_id=raw["job_id"],
        before=None if raw["from"] is None else JobState[raw["from"]],
        after=JobState[raw["to"]],
        sub_state=raw["sub_state"],
        at=datetime.fromisoformat(raw["at"]),
        tasks=raw.get("tasks"),
    )
