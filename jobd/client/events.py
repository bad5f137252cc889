"""Transitions of jobs, in order, from the daemon's log of them (DRMAA2 Notification, as a stream)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from jobd.client.link import Link
from jobd.client.subscription import Subscription
from jobd.model.states import JobState


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A job came from one state to another. ``before`` is None for a submission; ``tasks`` a range of an array's tasks.

    ``seq`` rises by one from event to event over all jobs; give the last one seen as ``since`` to go on after it.
    """

    seq: int
    job_id: str
    before: JobState | None
    after: JobState
    sub_state: str | None
    at: datetime
    tasks: str | None = None


class Truncated(msgspec.Struct, frozen=True):
    """Events before number ``first`` are no longer kept: those between the last one seen and this are lost."""

    first: int


class _WireEvent(msgspec.Struct, frozen=True, rename={"before": "from", "after": "to"}):
    seq: int
    job_id: str
    before: str | None
    after: str
    sub_state: str | None
    at: datetime
    tasks: str | None = None


class EventStream(Subscription[Event | Truncated]):
    """Events after number ``since`` (0: all that are kept, None: from now on), of one job or of all that one may see.

    Nothing is lost or repeated when the daemon is restarted. Where retention has deleted what comes next, or the
    reader was away for so long, a ``Truncated`` comes in its place.
    """

    method = "events"

    def __init__(self, link: Link, since: int | None, job: str | None, *, follow: bool) -> None:
        super().__init__(link)
        self._since = since
        self._job = job
        self._follow = follow

    def _params(self) -> dict[str, Any]:
        return {"since": self._since, "job": self._job, "follow": self._follow}

    def _answered(self, result: dict[str, Any]) -> None:
        self._since = result["since"]

    def _take(self, method: str, params: dict[str, Any]) -> None:
        if method == "event":
            self._append(params["event"])
        elif method == "event_end":
            self._finish()

    def _append(self, raw: dict[str, Any]) -> None:
        if raw.get("truncated"):
            self._items.append(Truncated(raw["first"]))
            self._since = raw["first"] - 1
            return
        event = _read(raw)
        self._items.append(event)
        self._since = event.seq


def _read(raw: dict[str, Any]) -> Event:
    wire = msgspec.convert(raw, _WireEvent)
    return Event(
        seq=wire.seq,
        job_id=wire.job_id,
        before=None if wire.before is None else JobState[wire.before],
        after=JobState[wire.after],
        sub_state=wire.sub_state,
        at=wire.at,
        tasks=wire.tasks,
    )
