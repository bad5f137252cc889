"""What SQLite raises, in jobd's words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobd.model.errors import Internal, JobdError, OutOfResource, UnusableDatabase

_NO_ROOM = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CANTOPEN})
_HELD = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_PRIMARY = 0xFF


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what SQLite raises within into jobd's errors.

    Raises:
        OutOfResource: the disk is full, can't be read or written just now, or another program holds the database.
        UnusableDatabase: the database is damaged or can't be written.
        Internal: anything else: a change that the schema does not allow, or a value that SQLite can't hold.
    """
    try:
        yield
    except sqlite3.Error as error:
        # An extended code has its primary one in the lowest byte (sqlite.org/rescode.html).
        raise _translated(path, error, getattr(error, "sqlite_errorcode", 0) & _PRIMARY) from error
    except (OverflowError, UnicodeError) as error:
        # A number past 64 bits, or a lone surrogate: the sqlite3 module's own errors, no subclass of sqlite3.Error.
        raise Internal(f"{path} can't hold a value: {error}") from error


def _translated(path: Path, error: sqlite3.Error, code: int) -> JobdError:
    if code in _NO_ROOM:
        return OutOfResource(f"{path} can't be read or written: {error}", hint="free some space on its volume")
    if code in _HELD:
        return OutOfResource(
            f"{path} is held by another program: {error}", hint="end the other program's transaction (see fuser(1))"
        )
    if code in _DAMAGED:
        return UnusableDatabase(
            f"{path} is damaged: {error}", hint="restore it from a backup, or move it away to begin anew"
        )
    if code == sqlite3.SQLITE_READONLY:
        return UnusableDatabase(f"{path} can't be written: {error}", hint="make it and its folder writable")
    return Internal(f"{path}: {error}")
