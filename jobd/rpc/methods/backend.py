"""``backend_list``: the places where jobs run, how they are and what each supports."""

from __future__ import annotations

from typing import Any

from jobd.backends.base import Backend
from jobd.rpc.context import Call, Context
from jobd.rpc.dispatch import Method, NoParams


async def backend_list(call: Call, params: NoParams) -> dict[str, Any]:
    """All backends."""
    return {"backends": [describe(call.context, backend) for backend in call.context.backends.values()]}


def describe(context: Context, backend: Backend) -> dict[str, Any]:
    """One backend as a table row."""
    health = backend.health()
    return {
        "name": backend.name,
        "kind": backend.kind,
        "ok": health.ok,
        "last_error": health.last_error,
        "jobs": sum(len(entry.runs) for entry in context.bookkeeper.picture if entry.job.backend == backend.name),
        "operations": sorted(backend.capabilities.operations),
        "attributes": sorted(backend.capabilities.attributes),
    }


METHODS = {"backend_list": Method(NoParams, backend_list)}
