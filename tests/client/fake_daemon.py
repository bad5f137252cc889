"""A daemon that does only what a test tells it: for faults that the real one can't be brought to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketListener, SocketStream, TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from jobd.model.errors import JobdError

Message = dict[str, Any]
GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class Peer:
    """One client's connection, from the daemon's side."""

    def __init__(self, stream: SocketStream) -> None:
        self.stream = stream
        self.gone = anyio.Event()

    async def answer(self, request: Message, result: Any) -> None:
        """Answer a request."""
        await self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def refuse(self, request: Message, error: JobdError) -> None:
        """Answer a request with an error."""
        await self.send({"jsonrpc": "2.0", "id": request["id"], "error": error.to_wire()})

    async def notify(self, request: Message, method: str, params: Message) -> None:
        """Send a notification of the stream that a request began."""
        await self.send({"jsonrpc": "2.0", "method": method, "params": {"id": request["id"], **params}})

    async def send(self, *messages: Message) -> None:
        """Send messages in one write."""
        await self.raw("".join(json.dumps(message) + "\n" for message in messages).encode())

    async def raw(self, data: bytes) -> None:
        """Send any bytes."""
        await self.stream.send(data)

    async def cut(self) -> None:
        """Close the connection."""
        await self.stream.aclose()


class FakeDaemon:
    """Answers ``hello``; every other message waits in order until the test takes it with ``next``."""

    def __init__(self, path: Path, tasks: TaskGroup) -> None:
        self.path = path
        self.hello: Message = {"protocol": 1, "version": "0.1.0", "ready": True, "store": "aa", "uid": 0}
        self.greetings: list[Message] = []
        self.cut_greetings = 0
        """How many connections are cut in place of an answer to their ``hello``."""
        self.mute = False
        """Whether ``hello`` is never answered."""
        self.peers: list[Peer] = []
        self._tasks = tasks
        self._scope = anyio.CancelScope()
        self._listener: SocketListener
        self._send: MemoryObjectSendStream[tuple[Peer, Message]]
        self._received: MemoryObjectReceiveStream[tuple[Peer, Message]]
        self._send, self._received = anyio.create_memory_object_stream[tuple[Peer, Message]](10000)

    async def start(self) -> None:
        """Listen."""
        self._listener = await anyio.create_unix_listener(self.path)
        self._scope = anyio.CancelScope()
        self._tasks.start_soon(self._accept)

    async def stop(self, *, keep_path: bool = False) -> None:
        """Hang up on everybody, and listen no more; with ``keep_path`` the socket's path refuses connections."""
        self._scope.cancel()
        await self._listener.aclose()
        for peer in self.peers:
            await peer.cut()
            await peer.gone.wait()
        if not keep_path:
            self.path.unlink(missing_ok=True)

    async def restart(self) -> None:
        """Stop, and start again."""
        await self.stop()
        await self.start()

    async def next(self, method: str) -> tuple[Peer, Message]:
        """The next message, which must be of that method."""
        with anyio.fail_after(10):
            peer, message = await self._received.receive()
        assert message["method"] == method, message
        return peer, message

    async def answer(self, method: str, result: Any) -> Message:
        """Answer the next request."""
        peer, request = await self.next(method)
        await peer.answer(request, result)
        params: Message = request["params"]
        return params

    def assert_nothing_waits(self) -> None:
        """No message came that the test did not take."""
        assert self._received.statistics().current_buffer_used == 0

    def close(self) -> None:
        """Free the streams of memory."""
        self._send.close()
        self._received.close()

    async def _accept(self) -> None:
        listener = self._listener
        with self._scope:
            while True:
                try:
                    peer = Peer(await listener.accept())
                except anyio.ClosedResourceError:
                    return
                self.peers.append(peer)
                self._tasks.start_soon(self._serve, peer)

    async def _serve(self, peer: Peer) -> None:
        buffer = b""
        try:
            while True:
                buffer += await peer.stream.receive()
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    await self._take(peer, json.loads(line))
        except GONE:
            pass
        finally:
            peer.gone.set()
            with anyio.CancelScope(shield=True):
                await peer.stream.aclose()

    async def _take(self, peer: Peer, message: Message) -> None:
        if message["method"] != "hello":
            await self._send.send((peer, message))
            return
        self.greetings.append(message["params"])
        if self.cut_greetings:
            self.cut_greetings -= 1
            await peer.cut()
            return
        if not self.mute:
            await peer.answer(message, self.hello)


@asynccontextmanager
async def fake_daemon(folder: Path) -> AsyncIterator[FakeDaemon]:
    """A fake daemon that listens at ``folder/run/jobd.sock``."""
    path = folder / "run" / "jobd.sock"
    path.parent.mkdir(exist_ok=True)
    async with anyio.create_task_group() as tasks:
        daemon = FakeDaemon(path, tasks)
        await daemon.start()
        try:
            yield daemon
        finally:
            with anyio.CancelScope(shield=True):
                await daemon.stop()
            daemon.close()
            tasks.cancel_scope.cancel()
