"""``list``: active jobs and the newest finished ones."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from jobd.model.info import JobInfo, info_of, matches
from jobd.rpc.context import Call
from jobd.rpc.dispatch import Method, Params
from jobd.rpc.selection import Found, Selection, by_attribute, select


class ListParams(Params):
    """``filter`` is a JobInfo by DRMAA2's rules; ``limit`` bounds how many finished jobs are looked at."""

    selection: Selection = msgspec.field(default_factory=Selection)
    filter: JobInfo | None = None
    limit: int | None = None
    since: datetime | None = None


async def list_jobs(call: Call, params: ListParams) -> dict[str, Any]:
    """Jobs by selection and filter, in order of id."""
    infos = [info_of(*found) for found in await _found(call, params)]
    if params.filter is not None:
        infos = [info for info in infos if matches(params.filter, info)]
    return {"jobs": infos}


async def _found(call: Call, params: ListParams) -> list[Found]:
    if params.selection.ids:
        return await select(call, params.selection)
    since = None if params.since is None else params.since.timestamp()
    return await by_attribute(call, params.selection, finished=True, limit=params.limit, since=since)


METHODS = {"list": Method(ListParams, list_jobs)}
