"""A SQLite connection in a thread of its own, by aiosqlite, that runs one function a hop."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import aiosqlite
import anyio

T = TypeVar("T")

_CHUNK = 64


class Connection(aiosqlite.Connection):
    """aiosqlite's connection with a way to run a whole group of statements in its thread at once.

    Each call of aiosqlite's own is a hop to the thread and back, which costs more than the statements of a small job.
    Opening and closing are not cut short by cancellation: the thread would open a database that nobody closes, or
    still write while the caller believes it closed.
    """

    def __init__(self, connector: Callable[[], sqlite3.Connection], iter_chunk_size: int) -> None:
        super().__init__(connector, iter_chunk_size)
        # On every way out it is closed; should there be one that is not thought of, its thread, which waits for work
        # for ever, must not keep the process. What is being committed then is lost as in a crash: whole.
        self._thread.daemon = True

    async def __aenter__(self) -> Connection:
        with anyio.CancelScope(shield=True):
            try:
                await super().__aenter__()
            except BaseException:
                # aiosqlite has told its thread to stop and does not wait for it: it would answer to a closed loop.
                await anyio.to_thread.run_sync(self._thread.join)
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await super().__aexit__(kind, error, where)

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` in the connection's thread. A cancelled caller does not stop it."""
        result: T = await self._execute(work, self._conn)  # type: ignore[no-untyped-call]
        return result


def writer(path: Path) -> Connection:
    """The connection that writes: durable at each commit (WAL, synchronous=FULL)."""

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None, cached_statements=256)
        try:
            prepare_writer(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    return Connection(connect, _CHUNK)


def prepare_writer(connection: sqlite3.Connection) -> None:
    """The settings of the writing connection."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA temp_store = MEMORY")


def reader(path: Path) -> Connection:
    """A connection that only reads, so that a long answer holds no commit up."""

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(uri(path, "mode=ro"), uri=True, isolation_level=None, cached_statements=256)

    return Connection(connect, _CHUNK)


def uri(path: Path, parameters: str) -> str:
    """SQLite's name for a file with parameters of how to open it (sqlite.org/uri.html)."""
    return f"{path.absolute().as_uri()}?{parameters}"


def fetch(connection: sqlite3.Connection, sql: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
    """All rows of a query."""
    return connection.execute(sql, parameters).fetchall()
