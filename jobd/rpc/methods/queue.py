"""``queue_list``: the local queues and how full they are."""

from __future__ import annotations

from typing import Any

from jobd.rpc.context import Call
from jobd.rpc.dispatch import Method, NoParams


async def queue_list(call: Call, params: NoParams) -> dict[str, Any]:
    """The queues, with the slots that are there, used, and how many jobs wait."""
    scheduler = call.context.scheduler
    used = min(scheduler.used, scheduler.slots)
    row = {
        "name": "default",
        "backend": "local",
        "slots": scheduler.slots,
        "used": used,
        "waiting": scheduler.waiting,
    }
    return {"queues": [row]}


METHODS = {"queue_list": Method(NoParams, queue_list)}
