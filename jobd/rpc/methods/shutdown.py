"""``shutdown``: stop the daemon. Jobs run on, or are ended first."""

from __future__ import annotations

import anyio

from jobd.model.errors import CannotEnd, DeniedByDrms
from jobd.rpc.context import Call
from jobd.rpc.dispatch import Method, Params, Stream
from jobd.rpc.methods.control import DEFAULT_GRACE, each, end
from jobd.rpc.selection import Found

_LONGEST = 60.0


class ShutdownParams(Params):
    """``terminate_jobs``: end every job first."""

    terminate_jobs: bool = False


async def shutdown(call: Call, params: ShutdownParams) -> Stream:
    """Stop the daemon, once that was answered.

    Raises:
        DeniedByDrms: the caller is neither root nor the daemon's user.
        CannotEnd: jobs could not be ended within 60 s; the daemon stays.
    """
    context = call.context
    if call.peer_uid not in (0, context.uid):
        raise DeniedByDrms("only the daemon's own user and root may stop it")
    if params.terminate_jobs:
        await _end_all(call)

    async def stop() -> None:
        context.shutdown()

    return Stream(stop)


async def _end_all(call: Call) -> None:
    """No new start meanwhile; what can't be ended is named."""
    context = call.context
    context.scheduler.paused = "the daemon is shutting down"
    failed: list[str] = []
    with anyio.move_on_after(_LONGEST):
        jobs = [Found(entry.job, run) for entry in context.bookkeeper.picture for run in entry.runs]
        result = await each(call, jobs, _end)
        failed = [str(row["job_id"]) for row in result["failed"]]
    left = sorted({*failed, *(str(entry.job.id) for entry in context.bookkeeper.picture)})
    if left:
        context.scheduler.paused = None
        context.bookkeeper.wake()
        raise CannotEnd(f"job {', '.join(left)} could not be ended; the daemon stays", jobs=left)


async def _end(call: Call, found: Found) -> None:
    await end(call, found, DEFAULT_GRACE)


METHODS = {"shutdown": Method(ShutdownParams, shutdown)}
