"""``events``: transitions in order, those that are kept and those to come."""

from __future__ import annotations

from typing import Any

from jobd.bookkeeper import Truncated
from jobd.model.ids import JobId, parse_id
from jobd.model.info import stamp
from jobd.model.job import Event
from jobd.rpc.context import Call
from jobd.rpc.dispatch import Method, Params, Stream


class EventsParams(Params):
    """``since``: after that number (0: all that is kept, None: from now); ``follow``: also those to come."""

    since: int | None = None
    follow: bool = False
    job: str | None = None


async def events(call: Call, params: EventsParams) -> Stream:
    """Events as notifications; without ``follow`` an ``event_end`` is the last.

    The answer says after which number they begin: who began "from now" and is cut off goes on from there.
    """
    only = None if params.job is None else parse_id(params.job)
    since = call.context.bookkeeper.events.last if params.since is None else params.since
    found = call.context.bookkeeper.events.follow(since, job=only and only.job, on=params.follow)

    async def run() -> None:
        async for item in found:
            if _wanted(item, only) and await _may_see(call, item):
                await call.notify("event", {"event": wire_event(item)})
        await call.notify("event_end", {})

    return Stream(run, {"since": since})


async def _may_see(call: Call, item: Event | Truncated) -> bool:
    if isinstance(item, Truncated) or call.peer_uid == 0 or call.context.uid != 0:
        return True
    record = await call.context.bookkeeper.find(JobId(item.job))
    return record is not None and call.may_see(record[0])


def _wanted(item: Event | Truncated, only: JobId | None) -> bool:
    return only is None or not only.task or isinstance(item, Truncated) or item.first <= only.task <= item.last


def wire_event(item: Event | Truncated) -> dict[str, Any]:
    """An event as clients see it."""
    if isinstance(item, Truncated):
        return {"truncated": True, "first": item.first}
    event = {
        "seq": item.seq,
        "job_id": str(JobId(item.job, item.first if item.first == item.last else 0)),
        "from": None if item.before is None else item.before.name,
        "to": item.after.name,
        "sub_state": item.sub_state,
        "at": stamp(item.at),
    }
    if item.first != item.last:
        event["tasks"] = f"{item.first}-{item.last}"
    return event


METHODS = {"events": Method(EventsParams, events)}
