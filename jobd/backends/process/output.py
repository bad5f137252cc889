"""Reading a job's output: in bounded chunks, by threads for jobd's own files, by a short-lived process for a user's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio

from jobd.backends.process.blocks import CHUNK, read_chunk, tail_offset
from jobd.backends.process.owners import Account
from jobd.model.errors import NotFound, OutOfResource

_PATIENCE = 10.0
_READER = Path(__file__).parent / "reader.py"


class CapturedFile:
    """A file in jobd's own state folder: local, so a thread may read it."""

    watchable = True

    def __init__(self, path: bytes) -> None:
        self.path = path

    async def read(self, offset: int) -> bytes:
        """A chunk from an offset; empty at the end, and where nothing was written yet."""
        return await anyio.to_thread.run_sync(read_chunk, self.path, offset)

    async def tail(self, lines: int) -> int:
        """The offset at which the last lines begin."""
        return await anyio.to_thread.run_sync(tail_offset, self.path, lines)


class UserFile:
    """A file on a user's path, which may hang: read by a process with the owner's rights, for a bounded time."""

    def __init__(self, path: bytes, account: Account, children: set[int], *, local: bool) -> None:
        self.path = path
        self.watchable = local
        self._account = account
        self._children = children

    async def read(self, offset: int) -> bytes:
        """A chunk from an offset; empty at the end, and where nothing was written yet.

        Raises:
            NotFound: it can't be read, or not in time.
        """
        return await self._ask("read", offset)

    async def tail(self, lines: int) -> int:
        """The offset at which the last lines begin.

        Raises:
            NotFound: it can't be read, or not in time.
        """
        return int(await self._ask("tail", lines) or b"0")

    async def _ask(self, what: str, number: int) -> bytes:
        with anyio.CancelScope(shield=True):
            try:
                process = await anyio.to_thread.run_sync(self._start, what, number)
            except OSError as error:
                raise OutOfResource(f"no process could be started to read the output: {error.strerror}") from error
        try:
            assert process.stdout is not None
            with anyio.move_on_after(_PATIENCE):
                return await self._collect(process)
            raise NotFound(f"{os.fsdecode(self.path)} did not answer within {_PATIENCE:g} s")
        finally:
            # A read from a hung mount may outlive its KILL: whoever reaps orphans takes it then.
            process.kill()
            if process.poll() is None:
                process.returncode = -signal.SIGKILL
            self._children.discard(process.pid)

    def _start(self, what: str, number: int) -> subprocess.Popen[bytes]:
        account = self._account
        words: list[str | bytes] = [sys.executable, "-I", "-S", os.fspath(_READER), what, str(number), self.path]
        if account.switch:
            words += [str(account.uid), str(account.gid), ",".join(map(str, account.groups))]
        process: subprocess.Popen[bytes] = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        )
        self._children.add(process.pid)
        return process

    async def _collect(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        data = bytearray()
        with process.stdout as pipe:
            os.set_blocking(pipe.fileno(), False)
            while True:
                await anyio.wait_readable(pipe.fileno())
                part = pipe.read(CHUNK)
                if part == b"":
                    break
                data += part or b""
        if not data.startswith(b"+"):
            raise NotFound(f"{os.fsdecode(self.path)} can't be read: {data[1:].decode() or 'the reader was ended'}")
        return bytes(data[1:])
