"""One daemon a state folder: a lock that the kernel takes back when its holder dies, so no pid file can go stale."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

from jobd.model.errors import DrmCommunication


class StateLock:
    """flock(2) on ``<state>/lock`` for as long as the context lasts."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "lock"
        self._descriptor = -1

    def __enter__(self) -> StateLock:
        """Take it.

        Raises:
            DrmCommunication: another daemon holds it.
        """
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise DrmCommunication(
                f"a daemon already runs for {self._path.parent}",
                hint="jobd status shows it; jobd shutdown stops it",
            ) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give it back."""
        os.close(self._descriptor)
