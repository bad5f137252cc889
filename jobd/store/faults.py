"""SQLite's errors in jobd's words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobd.model.errors import DrmCommunication, Internal, OutOfResource

_NO_ROOM = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CANTOPEN})
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what SQLite raises within into jobd's errors.

    Raises:
        OutOfResource: the disk is full, or can't be read or written just now.
        DrmCommunication: the database is damaged or can't be written.
        Internal: anything else: a change that the schema does not allow.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _NO_ROOM:
            raise OutOfResource(f"{path} can't be written: {error}", hint="free some space on its volume") from error
        if code in _DAMAGED:
            raise DrmCommunication(
                f"{path} is damaged: {error}", hint="restore it from a backup, or move it away to begin anew"
            ) from error
        if code == sqlite3.SQLITE_READONLY:
            raise DrmCommunication(f"{path} can't be written", hint="make it and its folder writable") from error
        raise Internal(f"{path}: {error}") from error
