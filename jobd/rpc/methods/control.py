"""Control of jobs: hold, release, suspend, resume, terminate, signal. Each returns once it is so, not merely asked."""

from __future__ import annotations

import signal as signals
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from jobd.bookkeeper import transitions
from jobd.bookkeeper.commands import ChangeTasks, WriteCause
from jobd.bookkeeper.waiters import terminated
from jobd.crashpoint import crash_point
from jobd.model.errors import InvalidArgument, InvalidState, JobdError, UnsupportedOperation
from jobd.model.job import Tasks
from jobd.model.states import Trigger
from jobd.rpc.context import Call
from jobd.rpc.dispatch import Method, Params
from jobd.rpc.selection import Found, Selection, error_row, select

DEFAULT_GRACE = 10.0
_SIDE_BY_SIDE = 64


class ControlParams(Params):
    """Which jobs."""

    selection: Selection


class TerminateParams(ControlParams):
    """``grace``: seconds between TERM and KILL; 0 kills at once."""

    grace: float | None = None


class SignalParams(ControlParams):
    """``signal``: a name, with or without SIG, in any case, or a number; ``leader``: only the leader gets it."""

    signal: str | int
    leader: bool = False


async def each(call: Call, jobs: list[Found], act: Callable[[Call, Found], Awaitable[None]]) -> dict[str, Any]:
    """Try every job, some side by side; which were done, and which failed and how."""
    failed: dict[int, dict[str, object]] = {}
    limit = anyio.CapacityLimiter(_SIDE_BY_SIDE)

    async def one(number: int, found: Found) -> None:
        async with limit:
            try:
                await act(call, found)
            except JobdError as error:
                failed[number] = error_row(found.tasks.id, error)

    async with anyio.create_task_group() as tasks:
        for number, found in enumerate(jobs):
            tasks.start_soon(one, number, found)
    done = [str(found.tasks.id) for number, found in enumerate(jobs) if number not in failed]
    return {"done": done, "failed": [failed[number] for number in sorted(failed)]}


async def hold(call: Call, params: ControlParams) -> dict[str, Any]:
    """QUEUED to QUEUED_HELD."""
    return await each(call, await select(call, params.selection, finished=False), _hold)


async def release(call: Call, params: ControlParams) -> dict[str, Any]:
    """QUEUED_HELD to QUEUED."""
    return await each(call, await select(call, params.selection, finished=False), _release)


async def suspend(call: Call, params: ControlParams) -> dict[str, Any]:
    """RUNNING to SUSPENDED."""
    return await each(call, await select(call, params.selection, finished=False), _suspend)


async def resume(call: Call, params: ControlParams) -> dict[str, Any]:
    """SUSPENDED to RUNNING."""
    return await each(call, await select(call, params.selection, finished=False), _resume)


async def terminate(call: Call, params: TerminateParams) -> dict[str, Any]:
    """End jobs, waiting or running; returns when their trees are gone."""
    grace = DEFAULT_GRACE if params.grace is None else params.grace
    if not 0 <= grace <= 86400:
        raise InvalidArgument("grace must be between 0 and 86400 seconds")

    async def act(call: Call, found: Found) -> None:
        await end(call, found, grace)

    return await each(call, await select(call, params.selection, finished=False), act)


async def signal(call: Call, params: SignalParams) -> dict[str, Any]:
    """Send a signal to running jobs."""
    number = parse_signal(params.signal)

    async def act(call: Call, found: Found) -> None:
        _require_started(found)
        backend = call.context.backend(found.job.backend)
        _supports(backend.capabilities.operations, "signal", found)
        await backend.signal(found.tasks.id, number, leader_only=params.leader)

    return await each(call, await select(call, params.selection, finished=False), act)


def parse_signal(text: str | int) -> int:
    """The number of a signal.

    Raises:
        InvalidArgument: there is no such signal.
    """
    name = str(text).upper().removeprefix("SIG")
    try:
        return int(signals.Signals(int(name)) if name.isdecimal() else signals.Signals["SIG" + name])
    except (KeyError, ValueError):
        raise InvalidArgument(f"there is no signal {text}", hint="write a name such as USR1, or a number") from None


async def _hold(call: Call, found: Found) -> None:
    transitions.require(found.tasks, Trigger.HOLD)
    if not await change_waiting(call, found, lambda tasks, now: transitions.hold(tasks)):
        id = str(found.tasks.id)
        raise InvalidState(f"job {id} has just started: it can't be held", jobs=[id])


async def _release(call: Call, found: Found) -> None:
    transitions.require(found.tasks, Trigger.RELEASE)
    await call.context.bookkeeper.ask(ChangeTasks(found.tasks.id, lambda tasks, now: transitions.release(tasks)))


async def _suspend(call: Call, found: Found) -> None:
    transitions.require(found.tasks, Trigger.STOP)
    backend = call.context.backend(found.job.backend)
    _supports(backend.capabilities.operations, "suspend", found)
    await backend.suspend(found.tasks.id)


async def _resume(call: Call, found: Found) -> None:
    transitions.require(found.tasks, Trigger.CONTINUE)
    backend = call.context.backend(found.job.backend)
    _supports(backend.capabilities.operations, "resume", found)
    await backend.resume(found.tasks.id)


async def change_waiting(call: Call, found: Found, change: Callable[[Tasks, float], Tasks]) -> bool:
    """Change a job that waits for its start; False where it has started meanwhile.

    A granted start is taken back first: whether that came before the start is the backend's answer.
    """
    bookkeeper = call.context.bookkeeper
    id = found.tasks.id
    while True:
        runs = bookkeeper.picture.runs_of(id)
        if not runs or not runs[0].state.waiting:
            return False
        returned = True
        if transitions.intended(runs[0]):
            returned = id in await call.context.backend(found.job.backend).revoke([id])
        if not returned:
            return False
        if await _try_change(call, id, change, attempt=runs[0].attempt):
            return True


async def _try_change(call: Call, id: Any, change: Callable[[Tasks, float], Tasks], attempt: int) -> bool:
    """False where an intent was committed between the look and the change: then it has to be taken back, too."""
    late = False

    def checked(tasks: Tasks, now: float) -> Tasks:
        nonlocal late
        late = transitions.intended(tasks) and tasks.attempt != attempt
        if late:
            raise InvalidState(f"job {id} was granted meanwhile")
        return change(tasks, now)

    try:
        await call.context.bookkeeper.ask(ChangeTasks(id, checked))
    except InvalidState:
        if late:
            return False
        raise
    return True


async def end(call: Call, found: Found, grace: float, cause: str = "terminated") -> None:
    """End one job.

    Raises:
        InvalidState: it has ended.
        CannotEnd: processes outlived the KILL.
    """
    id = found.tasks.id
    if found.tasks.state.final:
        raise InvalidState(f"job {id} has ended", jobs=[str(id)])
    if await change_waiting(call, found, lambda tasks, now: transitions.cancelled(tasks, cause, now)):
        return
    bookkeeper = call.context.bookkeeper
    await bookkeeper.ask(WriteCause(id, cause))
    crash_point("before-signal")
    await call.context.backend(found.job.backend).terminate(id, cause, grace)
    await bookkeeper.wait([id], terminated, any_of=False)


def _require_started(found: Found) -> None:
    if not found.tasks.state.started:
        id = str(found.tasks.id)
        raise InvalidState(f"job {id} is {found.tasks.state.name}: it has no processes", jobs=[id])


def _supports(operations: frozenset[str], operation: str, found: Found) -> None:
    if operation not in operations:
        raise UnsupportedOperation(f"backend {found.job.backend} can't {operation}", jobs=[str(found.tasks.id)])


METHODS = {
    "hold": Method(ControlParams, hold),
    "release": Method(ControlParams, release),
    "suspend": Method(ControlParams, suspend),
    "resume": Method(ControlParams, resume),
    "terminate": Method(TerminateParams, terminate),
    "signal": Method(SignalParams, signal),
}
