"""``reap``: forget finished jobs and their captured output (DRMAA2 reap)."""

from __future__ import annotations

from typing import Any

from jobd.bookkeeper.commands import Reap
from jobd.model.errors import InvalidState
from jobd.rpc.capture import drop_stored_input
from jobd.rpc.context import Call
from jobd.rpc.dispatch import Method, Params
from jobd.rpc.methods.control import each
from jobd.rpc.selection import Found, Selection, select


class ReapParams(Params):
    """Which jobs."""

    selection: Selection


async def reap(call: Call, params: ReapParams) -> dict[str, Any]:
    """Forget each of the jobs, once nothing of its tree is left; an active one is an error."""
    return await each(call, await select(call, params.selection), _reap)


async def _reap(call: Call, found: Found) -> None:
    id = found.tasks.id
    if not found.tasks.state.final:
        raise InvalidState(f"job {id} is {found.tasks.state.name}: only finished jobs can be reaped", jobs=[str(id)])
    backend = call.context.backend(found.job.backend)
    await backend.tree_gone(found.job, found.tasks)
    await call.context.bookkeeper.ask(Reap([id.job]))
    await backend.forget([id])
    await drop_stored_input(call.context.state_dir, found.job.template)


METHODS = {"reap": Method(ReapParams, reap)}
