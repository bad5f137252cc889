"""The keeper's journal: what it is about to do and what came of it, for whoever comes after its death.

It outlives processes, not the machine, whose end ends the jobs too: so nothing is synced.
"""

from __future__ import annotations

import errno
import json
import os

FILE = "journal"
COMPACT_ABOVE = 1 << 20


class Journal:
    """Appends records. A short write (a full disk) leaves a torn line; the next record begins on a line of its own."""

    def __init__(self, folder: str, header: bytes) -> None:
        self._path = os.path.join(folder, FILE)
        self._header = header
        self._torn = False
        self.size = 0
        self.descriptor = -1
        self._begin(())

    def _begin(self, records: tuple[bytes, ...] | list[bytes]) -> None:
        """Write a new journal beside the old one and put it in its place."""
        fresh = self._path + ".new"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        data = self._header + b"".join(records)
        if os.write(descriptor, data) != len(data):
            os.close(descriptor)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.rename(fresh, self._path)
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor, self.size, self._torn = descriptor, len(data), False

    def append(self, record: bytes) -> None:
        """Write one record.

        Raises:
            OSError: it could not be written whole.
        """
        data = b"\n" + record if self._torn else record
        written = os.write(self.descriptor, data)
        self.size += written
        self._torn = written != len(data)
        if self._torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def compact(self, records: list[bytes]) -> None:
        """Keep only these records. Where there is no room the old journal stays."""
        try:
            self._begin(records)
        except OSError:
            self.size = 0


def read_journal(folder: str) -> list[dict[str, object]]:
    """The records of a journal, in order; lines that were cut off are left out.

    Raises:
        FileNotFoundError: there is none.
    """
    found = []
    with open(os.path.join(folder, FILE), "rb") as file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                found.append(record)
    return found
