"""One client: its requests run side by side, each as a task that ends with the connection."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import anyio
import msgspec
from anyio.abc import SocketStream, TaskGroup

from jobd.model.errors import DeniedByDrms, FrameTooLong, InvalidArgument, JobdError, TryLater
from jobd.model.job import Owner
from jobd.protocol.frames import MAX_FRAME, MAX_GREETING, LineBuffer
from jobd.rpc.context import Call, Context
from jobd.rpc.dispatch import BadMessage, Envelope, Method, decode, notification, respond, serve
from jobd.rpc.outbox import Outbox

_CHUNK = 256 * 1024
_MOST_REQUESTS = 10_000
_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class CancelParams(msgspec.Struct):
    """Which of this connection's requests to cancel."""

    id: int | str


class Connection:
    """Serves one client until it leaves.

    Args:
        stream: the accepted socket.
        uid: who connected, by SO_PEERCRED.
        owner: whose jobs this client submits and sees.
        methods: what can be asked.
    """

    def __init__(
        self, stream: SocketStream, uid: int, owner: Owner, context: Context, methods: dict[str, Method]
    ) -> None:
        self._stream = stream
        self._uid = uid
        self._owner = owner
        self._context = context
        self._methods = methods
        self._outbox = Outbox(stream)
        self._lines = LineBuffer(MAX_FRAME, first=MAX_GREETING)
        self._greeted = False
        self._running: dict[int | str, anyio.CancelScope] = {}

    async def run(self) -> None:
        """Read requests until the client leaves, sends what is too long, or does not begin with ``hello``."""
        try:
            async with self._stream, anyio.create_task_group() as writer:
                writer.start_soon(self._outbox.run)
                async with anyio.create_task_group() as tasks:
                    await self._read(tasks)
                    for scope in self._running.values():
                        scope.cancel()
                self._outbox.close()
        except* _GONE:
            pass

    async def _read(self, tasks: TaskGroup) -> None:
        while True:
            try:
                lines = self._lines.feed(await self._stream.receive(_CHUNK))
            except _GONE:
                return
            except FrameTooLong as error:
                await self._refuse(None, error)
                return
            for line in lines:
                if line.strip() and not await self._take(line, tasks):
                    return

    async def _take(self, line: bytes, tasks: TaskGroup) -> bool:
        """Start one request; False where the connection is to be closed."""
        self._context.lag.sample()
        try:
            envelope = decode(line)
        except BadMessage as error:
            await self._refuse(None, error)
            return self._greeted
        if not self._greeted:
            return await self._greet(envelope)
        if envelope.method == "cancel":
            self._cancel(envelope)
            return True
        if len(self._running) >= _MOST_REQUESTS:
            await self._refuse(
                envelope.id, TryLater(f"{_MOST_REQUESTS} requests run on this connection", hint="wait for answers")
            )
            return True
        scope = anyio.CancelScope()
        key = envelope.id if envelope.id is not None else id(envelope)
        self._running[key] = scope
        tasks.start_soon(self._serve, envelope, key, scope)
        return True

    async def _greet(self, envelope: Envelope) -> bool:
        if envelope.method != "hello":
            await self._refuse(envelope.id, InvalidArgument("the first request must be hello"))
            return False
        if not may_connect(self._uid):
            await self._refuse(envelope.id, DeniedByDrms("this daemon serves only its own user and root"))
            return False
        self._greeted = True
        answer, _ = await serve(self._call(envelope), envelope, self._methods)
        await self._outbox.send(answer)
        return True

    async def _serve(self, envelope: Envelope, key: int | str, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                answer, stream = await serve(self._call(envelope), envelope, self._methods)
                if envelope.id is not None:
                    await self._outbox.send(answer)
                if stream is not None:
                    await self._outbox.flush()
                    await stream.run()
        finally:
            self._running.pop(key, None)

    def _call(self, envelope: Envelope) -> Call:
        async def notify(method: str, params: Mapping[str, Any]) -> None:
            await self._outbox.send(notification(method, {"id": envelope.id, **params}))

        return Call(self._context, envelope.id, self._owner, self._uid, notify)

    def _cancel(self, envelope: Envelope) -> None:
        try:
            wanted = msgspec.json.decode(envelope.params, type=CancelParams)
        except msgspec.DecodeError:
            return
        scope = self._running.get(wanted.id)
        if scope is not None:
            scope.cancel()

    async def _refuse(self, id: int | str | None, error: JobdError) -> None:
        await self._outbox.send(respond(id, {"error": error.to_wire()}))


def may_connect(uid: int) -> bool:
    """Whether this daemon serves a uid: root's serves all, a user's its own and root.

    The overflow uid stands for every uid of a foreign user namespace, so it is nobody that could be told apart.
    """
    own = os.getuid()
    if uid == overflow_uid():
        return False
    return own == 0 or uid in (own, 0)


def overflow_uid() -> int:
    """The uid that the kernel shows for users of other user namespaces (user_namespaces(7))."""
    try:
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 65534
