"""``logs``: a job's output, as it is and as it comes."""

from __future__ import annotations

from typing import Any, Literal

import anyio
import msgspec

from jobd.backends.base import Backend
from jobd.model.errors import InvalidArgument, JobdError, first_of
from jobd.model.info import JobInfo, info_of
from jobd.model.text import wrap
from jobd.rpc.context import Call
from jobd.rpc.dispatch import Method, Params, Stream
from jobd.rpc.selection import Found, select_one

StreamName = Literal["stdout", "stderr"]


class LogsParams(Params):
    """``follow``: on to the job's end; ``lines``: only that many at the end; ``offsets``: where to begin, in bytes."""

    job: str
    streams: tuple[StreamName, ...] = ("stdout", "stderr")
    follow: bool = False
    lines: int | None = None
    attempt: int | None = None
    offsets: dict[StreamName, int] = msgspec.field(default_factory=dict)


async def logs(call: Call, params: LogsParams) -> Stream:
    """Output as notifications, an ``output_end`` with the job's info as the last."""
    if params.lines is not None and params.lines < 0:
        raise InvalidArgument("lines can't be less than 0")
    found = await select_one(call, params.job)
    backend = call.context.backend(found.job.backend)

    async def run() -> None:
        end: dict[str, Any] = {}
        try:
            async with anyio.create_task_group() as tasks:
                for name in dict.fromkeys(params.streams):
                    tasks.start_soon(_send, call, params, found, backend, name)
        except* JobdError as group:
            end["error"] = first_of(group).to_wire()
        await call.notify("output_end", {"job": await _info(call, found), **end})

    return Stream(run)


async def _send(call: Call, params: LogsParams, found: Found, backend: Backend, name: StreamName) -> None:
    offset = params.offsets.get(name, 0)
    if params.lines is not None and name not in params.offsets:
        offset = await backend.tail_offset(found.job, found.tasks, name, params.attempt, params.lines)

    async def sink(chunk: bytes) -> None:
        nonlocal offset
        await call.notify("output", {"stream": name, "offset": offset, "data": wrap(chunk)})
        offset += len(chunk)

    await backend.copy_output(found.job, found.tasks, name, params.attempt, offset, sink, follow=params.follow)


async def _info(call: Call, found: Found) -> JobInfo | None:
    record = await call.context.bookkeeper.find(found.tasks.id)
    for run in record[1] if record else ():
        if record and run.first <= found.tasks.first <= run.last:
            return info_of(record[0], run)
    return None


METHODS = {"logs": Method(LogsParams, logs)}
