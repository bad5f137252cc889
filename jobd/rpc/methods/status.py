"""``status``: how the daemon is. Answered from the start, before recovery is done."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any

from jobd import __version__
from jobd.rpc.context import Call
from jobd.rpc.dispatch import Method, NoParams
from jobd.rpc.methods.backend import describe


async def status(call: Call, params: NoParams) -> dict[str, Any]:
    """Version, readiness, uptime in seconds, active jobs by state, backends and the worst loop lag in seconds."""
    context = call.context
    counts = Counter(run.state.name for entry in context.bookkeeper.picture for run in entry.runs)
    return {
        "version": __version__,
        "ready": context.ready.is_set(),
        "uptime": round(time.monotonic() - context.started, 3),
        "pid": os.getpid(),
        "state_dir": os.fspath(context.state_dir),
        "socket": os.fspath(context.socket),
        "jobs": dict(counts),
        "backends": [describe(context, backend) for backend in context.backends.values()],
        "last_event": context.bookkeeper.events.last,
        "loop_lag": round(context.lag.worst, 6),
        "notes": context.notes,
    }


METHODS = {"status": Method(NoParams, status, early=True)}
