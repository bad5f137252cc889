"""``show``: everything about jobs."""

from __future__ import annotations

from typing import Any

import msgspec

from jobd.model.info import JobInfo, info_of
from jobd.model.template import JobTemplate
from jobd.rpc.context import Call
from jobd.rpc.dispatch import Method, Params
from jobd.rpc.methods.events import wire_event
from jobd.rpc.selection import Found, Selection, select

_MOST_EVENTS = 1000
_ATTEMPT = (
    "attempt state sub_state exit_status terminating_signal start_error annotation dispatch_time finish_time "
    "wallclock_time native_id allocated_machines"
).split()


class ShowParams(Params):
    """Which jobs."""

    selection: Selection


async def show(call: Call, params: ShowParams) -> dict[str, Any]:
    """JobInfo with template, attempts, events and files. Environment values are secrets: only names are shown."""
    return {"jobs": [await _row(call, found) for found in await select(call, params.selection)]}


async def _row(call: Call, found: Found) -> dict[str, Any]:
    job, tasks = found
    info = info_of(job, tasks)
    events = await call.context.store.events(0, _MOST_EVENTS, job.id)
    backend = call.context.backend(job.backend)
    return {
        **msgspec.structs.asdict(info),
        "template": shown_template(job.template),
        "attempts": [_attempt(info)] if tasks.attempt else [],
        "events": [wire_event(event) for event in events],
        "files": await backend.files(job, tasks),
    }


def _attempt(info: JobInfo) -> dict[str, Any]:
    return {name: getattr(info, name) for name in _ATTEMPT}


def shown_template(template: JobTemplate) -> dict[str, Any]:
    """A template as anybody may read it."""
    raw: dict[str, Any] = msgspec.to_builtins(template)
    if template.job_environment is not None:
        raw["job_environment"] = sorted(template.job_environment)
    return raw


METHODS = {"show": Method(ShowParams, show)}
