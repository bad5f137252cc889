"""The daemon's connection to one keeper: orders go out, reports come in and are acknowledged once committed."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import structlog
from anyio.abc import SocketAttribute, SocketStream, TaskStatus

from jobd.backends.base import Observation, Observer
from jobd.backends.process.wire import Record, observation
from jobd.crashpoint import crash_point
from jobd.model.errors import CannotEnd, DrmCommunication, InvalidState, OutOfResource
from jobd.paths import socket_address
from jobd.protocol.frames import LineBuffer

_log = structlog.get_logger(__name__)

_CHUNK = 1 << 18
_AGAIN = 1.0
_decode = msgspec.json.Decoder(dict).decode
_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class Answer:
    """What a request is waiting for."""

    def __init__(self) -> None:
        self.record: Record | None = None
        self.done = anyio.Event()

    def settle(self, record: Record | None) -> None:
        """It came, or the keeper is gone (None)."""
        self.record = record
        self.done.set()


class Link:
    """One keeper, by its name and folder.

    ``known`` are the tokens of jobs that it has, ``granted`` those of them that it has not started;
    ``lingering`` have ended and left something in their process group: their event is set when it is empty.
    """

    def __init__(self, name: str, folder: Path, generation: int, machine: str, observer: Observer) -> None:
        self.name = name
        self.folder = folder
        self.pid = 0
        self.alive = False
        self.known: set[str] = set()
        self.granted: set[str] = set()
        self.lingering: dict[str, anyio.Event] = {}
        self._generation = generation
        self._machine = machine
        self._observer = observer
        self._stream: SocketStream | None = None
        self._answers: dict[int, Answer] = {}
        self._count = 0
        self._sending = anyio.Lock()
        self.synced = anyio.Event()

    async def connect(self) -> None:
        """Connect and say hello.

        Raises:
            OSError: nobody listens there.
        """
        with socket_address(self.folder / "sock") as address:
            self._stream = await anyio.connect_unix(address)
        self.alive = True
        await self.send(op="hello", generation=self._generation, protocol=1, uid=os.getuid())

    def close(self) -> None:
        """Let go of a keeper that did not answer in time."""
        if self._stream is not None:
            self._stream.extra(SocketAttribute.raw_socket).shutdown(socket.SHUT_RDWR)

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Take reports until the keeper goes away; ready once it has told all that it knows."""
        stream, lines = self._stream, LineBuffer()
        assert stream is not None
        async with stream:
            try:
                task_status.started()
                while True:
                    await self._take([_decode(line) for line in lines.feed(await stream.receive(_CHUNK))])
            except _GONE:
                _log.info("a keeper went away", keeper=self.name, pid=self.pid)
            finally:
                self.alive = False
                self.synced.set()
                for answer in self._answers.values():
                    answer.settle(None)
                self._answers.clear()

    async def _take(self, records: Sequence[Record]) -> None:
        """A group of reports: all that came while the last one was being committed."""
        seen = [one for record in records if (one := self._note(record)) is not None]
        if seen:
            crash_point("before-record")
            await self._report(seen)
            ends = [record["t"] for record in records if record["k"] == "ended"]
            if ends:
                await self.send(op="ack", t=ends)
                self.known.difference_update(ends)
        for record in records:
            if record["k"] == "answer" and (answer := self._answers.pop(record["id"], None)):
                answer.settle(record)
            elif record["k"] == "synced":
                self.synced.set()

    def _note(self, record: Record) -> Observation | None:
        kind, token = record["k"], record.get("t", "")
        if kind == "hello":
            self.pid = record["pid"]
        elif kind == "granted":
            self.known.add(token)
            self.granted.add(token)
        elif kind == "refused":
            self.known.discard(token)
            self.granted.discard(token)
        elif kind in ("started", "ended"):
            self.known.add(token)
            self.granted.discard(token)
            if kind == "ended" and not record["freed"]:
                self.lingering[token] = anyio.Event()
        elif kind == "freed" and token in self.lingering:
            self.lingering.pop(token).set()
        return observation(record, self.name, self._machine)

    async def _report(self, seen: Sequence[Observation]) -> None:
        """Until it is committed; meanwhile the keeper keeps what is not acknowledged."""
        while True:
            try:
                await self._observer.observe(seen)
            except OutOfResource as error:
                _log.warning("reports wait for room on disk", error=error.message, keeper=self.name)
                await anyio.sleep(_AGAIN)
                continue
            return

    async def send(self, **message: Any) -> None:
        """Send an order.

        Raises:
            DrmCommunication: the keeper is gone.
        """
        assert self._stream is not None
        try:
            async with self._sending:
                await self._stream.send(msgspec.json.encode(message) + b"\n")
        except _GONE as error:
            raise DrmCommunication(f"keeper {self.name} is gone") from error

    async def grant(self, envs: Mapping[str, Any], specs: Sequence[Mapping[str, Any]]) -> None:
        """Give it starts."""
        tokens = {spec["t"] for spec in specs}
        self.known |= tokens
        self.granted |= tokens
        await self.send(op="grant", envs=envs, jobs=specs)

    async def ask(self, **message: Any) -> Record:
        """Send a request and wait for its answer.

        Raises:
            DrmCommunication: the keeper is gone.
            InvalidState: the job has no processes.
            CannotEnd: processes outlived SIGKILL.
        """
        self._count += 1
        number, answer = self._count, Answer()
        self._answers[number] = answer
        try:
            await self.send(id=number, **message)
            await answer.done.wait()
        finally:
            self._answers.pop(number, None)
        if answer.record is None:
            raise DrmCommunication(f"keeper {self.name} is gone")
        return _checked(answer.record)

    async def revoke(self, tokens: Sequence[str]) -> set[str]:
        """Take grants back; those that did not start."""
        revoked = set((await self.ask(op="revoke", t=list(tokens)))["revoked"])
        self.known -= revoked
        self.granted -= revoked
        return revoked


def _checked(record: Record) -> Record:
    error = record.get("error")
    if error is None:
        return record
    if record.get("errno") == "EBUSY":
        pids = ", ".join(map(str, record.get("pids", ())))
        raise CannotEnd(f"{error}" + (f": {pids} (uninterruptible sleep)" if pids else ""))
    raise InvalidState(f"the job can't do that: {error}")

