"""``wait``: answered at the commit that makes it true; nobody asks twice."""

from __future__ import annotations

from typing import Any

from jobd.bookkeeper.waiters import parse_goal
from jobd.model.errors import Timeout
from jobd.model.ids import JobId
from jobd.model.info import info_of
from jobd.rpc.context import Call
from jobd.rpc.dispatch import Method, Params
from jobd.rpc.selection import Selection, select


class WaitParams(Params, rename={"goal": "for"}):
    """``for``: terminated, started or a state; ``any``: one job is enough; ``timeout``: seconds, 0 only asks."""

    selection: Selection
    goal: str = "terminated"
    any: bool = False
    timeout: float | None = None


async def wait(call: Call, params: WaitParams) -> dict[str, Any]:
    """Wait for jobs.

    Raises:
        Timeout: it did not come in time.
        InvalidState: it can't come any more.
    """
    goal = parse_goal(params.goal)
    ids: list[JobId] = [found.tasks.id for found in await select(call, params.selection)]
    try:
        reached = await call.context.bookkeeper.wait(ids, goal, any_of=params.any, timeout=params.timeout)
    except TimeoutError as error:
        raise Timeout(f"not {params.goal} within {params.timeout:g} s", jobs=map(str, ids)) from error
    return {"jobs": [info_of(*reached[id]) for id in ids if id in reached]}


METHODS = {"wait": Method(WaitParams, wait)}
