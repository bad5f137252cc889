"""The daemon's connection to one keeper: orders go out, reports come in and are acknowledged once committed."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import structlog
from anyio.abc import SocketAttribute, SocketStream

from jobd.backends.base import Observation
from jobd.backends.process.wire import Record, observation
from jobd.crashpoint import crash_point
from jobd.model.errors import CannotEnd, DrmCommunication, InvalidState
from jobd.paths import socket_address
from jobd.protocol.frames import LineBuffer

_log = structlog.get_logger(__name__)

PROTOCOL = 1
"""The version of the keeper's wire that this daemon speaks; a keeper of another one gets no new jobs."""

_CHUNK = 1 << 18
_decode = msgspec.json.Decoder(dict).decode
_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)

Tell = Callable[["Link", Sequence[Observation]], Awaitable[bool]]


class KeeperGone(DrmCommunication):
    """The connection to a keeper was lost; whether it died, and what it did, is found out elsewhere."""


class _Answer:
    """What a request is waiting for."""

    def __init__(self) -> None:
        self.record: Record | None = None
        self.done = anyio.Event()

    def settle(self, record: Record | None) -> None:
        """It came, or the connection is lost (None)."""
        self.record = record
        self.done.set()


class Link:
    """One keeper, by its name and folder.

    Args:
        tell: has a group of observations committed; False where that failed for good.

    Attributes:
        known: tokens of jobs that it has and whose end is not acknowledged.
        lingering: jobs that ended and left something in their process group; the event is set when it is empty.
        synced: set once it has told all that it knows, or the connection is lost before that.
        settled: set while the keeper may be asked, and once it is known to be dead and all it left is sorted out.
        retired: it gets no new jobs, and is let go of after its last one.
        expected: tokens of the jobs that it was given before the connection was lost; None where another daemon gave
            them, and only the store knows.
    """

    def __init__(self, name: str, folder: Path, generation: int, machine: str, tell: Tell) -> None:
        self.name = name
        self.folder = folder
        self.pid = 0
        self.protocol = 0
        self.alive = False
        self.retired = False
        self.known: set[str] = set()
        self.expected: frozenset[str] | None = None
        self.lingering: dict[str, anyio.Event] = {}
        self.synced = anyio.Event()
        self.settled = anyio.Event()
        self._generation = generation
        self._machine = machine
        self._tell = tell
        self._stream: SocketStream | None = None
        self._answers: dict[int, _Answer] = {}
        self._count = 0
        self._sending = anyio.Lock()

    async def connect(self) -> None:
        """Connect and say hello; the keeper then tells all that it knows.

        Raises:
            OSError: nobody listens there.
            KeeperGone: it went away at once.
        """
        with socket_address(self.folder / "sock") as address:
            self._stream = await anyio.connect_unix(address)
        self.alive = True
        self.synced = anyio.Event()
        self.known.clear()
        await self.send(op="hello", generation=self._generation, protocol=PROTOCOL, uid=os.getuid())

    async def run(self) -> None:
        """Take reports until the connection is lost, or until the last job of a retired keeper is acknowledged."""
        stream, lines = self._stream, LineBuffer()
        assert stream is not None
        try:
            async with stream:
                while not (self.retired and not self.known and self.settled.is_set()):
                    await self._take([_decode(line) for line in lines.feed(await stream.receive(_CHUNK))])
        except _GONE:
            _log.info("a keeper went away", keeper=self.name, pid=self.pid)
        except KeeperGone:
            _log.info("a keeper went away while it was told something", keeper=self.name, pid=self.pid)
        finally:
            self._lost()

    def _lost(self) -> None:
        self.alive = False
        if self.settled.is_set():
            self.settled = anyio.Event()
            self.expected = frozenset(self.known)
        self.synced.set()
        for answer in self._answers.values():
            answer.settle(None)
        self._answers.clear()

    def retire(self) -> None:
        """No new jobs: it is let go of as soon as it has none."""
        self.retired = True
        if self.alive and self.settled.is_set() and not self.known and self._stream is not None:
            self._stream.extra(SocketAttribute.raw_socket).shutdown(socket.SHUT_RDWR)

    async def _take(self, records: Sequence[Record]) -> None:
        """A group of reports: all that came while the last one was being committed."""
        seen = [one for record in records if (one := self._note(record)) is not None]
        if seen:
            crash_point("before-record")
            if await self._tell(self, seen):
                await self._acknowledge([record["t"] for record in records if record["k"] == "ended"])
        for record in records:
            if record["k"] == "answer" and (answer := self._answers.pop(record["id"], None)):
                answer.settle(record)
            elif record["k"] == "synced":
                self.synced.set()

    async def _acknowledge(self, tokens: list[str]) -> None:
        if tokens:
            await self.send(op="ack", t=tokens)
            self.known.difference_update(tokens)

    def _note(self, record: Record) -> Observation | None:
        kind, token = record["k"], record.get("t", "")
        match kind:
            case "hello":
                self.pid, self.protocol = record["pid"], record["protocol"]
            case "granted" | "started":
                self.known.add(token)
            case "refused":
                self.known.discard(token)
            case "ended":
                self.known.add(token)
                if not record["freed"]:
                    self.lingering[token] = anyio.Event()
            case "freed" if token in self.lingering:
                self.lingering.pop(token).set()
        return observation(record, self.name, self._machine)

    async def send(self, **message: Any) -> None:
        """Send an order.

        Raises:
            KeeperGone: the connection is lost.
        """
        assert self._stream is not None
        try:
            async with self._sending:
                await self._stream.send(msgspec.json.encode(message) + b"\n")
        except _GONE as error:
            raise KeeperGone(f"keeper {self.name} is gone") from error

    async def grant(self, envs: Mapping[str, Any], specs: Sequence[Mapping[str, Any]]) -> None:
        """Give it starts. From the first moment of the call on they are the keeper's, whatever becomes of it.

        Raises:
            KeeperGone: the connection is lost.
        """
        self.known |= {spec["t"] for spec in specs}
        await self.send(op="grant", envs=envs, jobs=specs)

    async def ask(self, **message: Any) -> Record:
        """Send a request and wait for its answer; what the keeper reported before it is committed by then.

        Raises:
            KeeperGone: the connection was lost before the answer.
            InvalidState: the job has no processes, or they do not do it.
            CannotEnd: processes outlived SIGKILL.
        """
        self._count += 1
        number, answer = self._count, _Answer()
        self._answers[number] = answer
        try:
            await self.send(id=number, **message)
            await answer.done.wait()
        finally:
            self._answers.pop(number, None)
        if answer.record is None:
            raise KeeperGone(f"keeper {self.name} is gone")
        return _checked(answer.record)

    async def revoke(self, tokens: Sequence[str]) -> set[str]:
        """Take grants back; those that did not start and never will.

        Raises:
            KeeperGone: the connection was lost before the answer.
        """
        revoked = set((await self.ask(op="revoke", t=list(tokens)))["revoked"])
        self.known -= revoked
        return revoked


class KeptJob:
    """A job that a keeper has, to be controlled."""

    def __init__(self, link: Link, token: str) -> None:
        self._link = link
        self._token = token

    async def suspend(self) -> None:
        """Stop the tree; returns when that was seen and committed."""
        await self._link.ask(op="suspend", t=self._token)

    async def resume(self) -> None:
        """Let the tree go on; returns when that was seen and committed."""
        await self._link.ask(op="resume", t=self._token)

    async def terminate(self, cause: str | None, grace: float) -> None:
        """End the tree; returns when it is gone."""
        await self._link.ask(op="end", t=self._token, cause=cause, grace=grace)

    async def signal(self, number: int, *, leader_only: bool) -> None:
        """Signal the tree or its leader."""
        await self._link.ask(op="signal", t=self._token, sig=number, leader=leader_only)


def _checked(record: Record) -> Record:
    error = record.get("error")
    if error is None:
        return record
    if record.get("pids"):
        pids = ", ".join(map(str, record["pids"]))
        raise CannotEnd(f"{error}: {pids} (uninterruptible sleep)")
    raise InvalidState(f"the job can't do that: {error}")
