"""Opening a database: what must be true of it before anything is written, and how it is brought up to date."""

from __future__ import annotations

import errno
import os
import platform
import re
import sqlite3
import uuid
from collections.abc import Mapping
from contextlib import closing
from importlib.resources import files
from pathlib import Path

from jobd.model.errors import OutOfResource, UnusableDatabase
from jobd.paths import network_filesystem
from jobd.store.connection import prepare_writer, uri
from jobd.store.faults import explained
from jobd.store.queries import QUERIES

APPLICATION_ID = 0x6A6F6264
"""What marks a SQLite file as jobd's (``PRAGMA application_id``): the letters "jobd"."""

_NUMBER = re.compile(r"([0-9]{4})_\w+\.sql\Z")


def migrations() -> list[tuple[int, str]]:
    """Numbers and texts of the migrations, in order."""
    found = []
    for file in files("jobd.store.migrations").iterdir():
        match = _NUMBER.match(file.name)
        if match:
            found.append((int(match[1]), file.read_text("utf-8")))
    return sorted(found)


def newest_version() -> int:
    """The schema version that this code works with."""
    return migrations()[-1][0]


def prepare(path: Path) -> None:
    """Check a database and bring it up to date; make it where there is none. Blocking.

    Raises:
        UnusableDatabase: it must not be used, and was left as it is; the message names it and the way out.
        OutOfResource: there is no room on disk.
    """
    _require_local(path)
    _touch(path)
    with explained(path):
        _check(path)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            prepare_writer(connection)
            _migrate(connection)
            _mark(connection)


def _require_local(path: Path) -> None:
    kind = network_filesystem(path.parent)
    if kind is not None:
        raise UnusableDatabase(
            f"{path} lies on a network file system ({kind}), where SQLite's WAL is not safe",
            hint="choose a local folder with JOBD_STATE_DIR",
        )


def _touch(path: Path) -> None:
    """The file gets its mode from the first instant; SQLite gives -wal and -shm the same."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OutOfResource(f"{path} can't be made: {error.strerror}") from error
        raise UnusableDatabase(
            f"{path} can't be opened for writing: {error.strerror}",
            hint="make it writable, or choose another state folder",
        ) from error


def _check(path: Path) -> None:
    """Before a byte is written: is it ours, whole enough to read, of this machine, and not from a newer jobd?"""
    with closing(sqlite3.connect(_untouching(path), uri=True, isolation_level=None)) as connection:
        mark = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        empty = not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
        if empty and not mark and not version:
            return
        if mark != APPLICATION_ID:
            raise UnusableDatabase(
                f"{path} is not a database of jobd's", hint="move it away, or choose another state folder"
            )
        if version > newest_version():
            raise UnusableDatabase(
                f"{path} was written by a newer jobd (schema {version}, this one knows {newest_version()})",
                hint="use that jobd, or another state folder",
            )
        _require_here(path, dict(connection.execute(QUERIES["meta"]).fetchall()))


def _untouching(path: Path) -> str:
    """The name to open it under so that only looking changes nothing, not even by a checkpoint when it is closed.

    A hot journal, from a crash while the file was first made, can be read by nobody who does not roll it back.
    """
    if path.with_name(f"{path.name}-journal").exists():
        return uri(path, "mode=rw")
    wal = path.with_name(f"{path.name}-wal")
    return uri(path, "mode=ro" if wal.exists() and wal.stat().st_size else "immutable=1")


def _require_here(path: Path, known: Mapping[str, str]) -> None:
    """The store belongs to one machine: two hosts on one store would run everything twice."""
    here = machine_id()
    if known and known.get("machine") != here:
        raise UnusableDatabase(
            f"{path} belongs to host {known.get('host')} (machine {known.get('machine')}), "
            f"this is {platform.node()} ({here})",
            hint="use it there, or choose another state folder here",
        )


def _migrate(connection: sqlite3.Connection) -> None:
    """Each migration in a transaction of its own, with its number."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for number, text in migrations():
        if number > version:
            connection.executescript(f"BEGIN IMMEDIATE;\n{text}\nPRAGMA user_version = {number};\nCOMMIT;")


def _mark(connection: sqlite3.Connection) -> None:
    """A new store gets an id, and the names of this machine."""
    if connection.execute(QUERIES["meta"]).fetchall():
        return
    rows = [("store", uuid.uuid4().hex[:12]), ("machine", machine_id()), ("host", platform.node())]
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(QUERIES["set_meta"], rows)
    connection.execute("COMMIT")


def machine_id() -> str:
    """The machine's id (machine-id(5)), or the host's name where it has none."""
    try:
        return Path("/etc/machine-id").read_text("ascii").strip() or platform.node()
    except OSError:
        return platform.node()
