"""Opening a database: what must be true of it before anything is written, and how it is brought up to date."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import uuid
from contextlib import closing
from importlib.resources import files
from pathlib import Path

from jobd.model.errors import DrmCommunication, OutOfResource
from jobd.paths import network_filesystem
from jobd.store.connection import prepare_writer
from jobd.store.faults import explained
from jobd.store.queries import QUERIES

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


class UnusableDatabase(DrmCommunication):
    """The database is damaged, foreign, newer or can't be written. It was left as it is."""

    code = 104


def prepare(path: Path) -> None:
    """Check a database and bring it up to date; make it where there is none. Blocking.

    Raises:
        UnusableDatabase: it must not be used; the message names it and the way out.
    """
    kind = network_filesystem(path.parent)
    if kind is not None:
        raise UnusableDatabase(
            f"{path} lies on a network file system ({kind}), where SQLite's WAL is not safe",
            hint="choose a local folder with JOBD_STATE_DIR",
        )
    fresh = not path.exists()
    _touch(path)
    with explained(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        if not fresh:
            _check(connection, path)
        prepare_writer(connection)
        _migrate(connection)
        _identify(connection, path)


def _touch(path: Path) -> None:
    """The file gets its mode from the first instant; SQLite gives -wal and -shm the same."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        if error.errno in (28, 122):
            raise OutOfResource(f"{path} can't be made: {error.strerror}") from error
        raise UnusableDatabase(
            f"{path} can't be opened for writing: {error.strerror}",
            hint="make it writable, or choose another state folder",
        ) from error


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Before a byte is written: is it ours, whole enough to read, and not from a newer jobd?"""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if version > newest_version():
        raise UnusableDatabase(
            f"{path} was written by a newer jobd (schema {version}, this one knows {newest_version()})",
            hint="use that jobd, or another state folder",
        )
    if tables and (version == 0 or "meta" not in tables):
        raise UnusableDatabase(
            f"{path} is not a database of jobd's", hint="move it away, or choose another state folder"
        )


def _migrate(connection: sqlite3.Connection) -> None:
    """Each migration in a transaction of its own, with its number."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for number, text in migrations():
        if number > version:
            connection.executescript(f"BEGIN IMMEDIATE;\n{text}\nPRAGMA user_version = {number};\nCOMMIT;")


def _identify(connection: sqlite3.Connection, path: Path) -> None:
    """The store belongs to one machine: two hosts on one store would run everything twice."""
    known = dict(connection.execute(QUERIES["meta"]).fetchall())
    here = {"machine": machine_id(), "host": platform.node()}
    if not known:
        rows = [("store", uuid.uuid4().hex[:12]), *here.items()]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(QUERIES["set_meta"], rows)
        connection.execute("COMMIT")
    elif known["machine"] != here["machine"]:
        raise UnusableDatabase(
            f"{path} belongs to host {known['host']} (machine {known['machine']}), "
            f"this is {here['host']} ({here['machine']})",
            hint="use it there, or choose another state folder here",
        )


def machine_id() -> str:
    """The machine's id (machine-id(5)), or the host's name where it has none."""
    try:
        return Path("/etc/machine-id").read_text("ascii").strip() or platform.node()
    except OSError:
        return platform.node()
