"""One daemon a state folder: a lock that the kernel takes back when its holder dies, so no pid file can go stale."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

from jobd.model.errors import DrmCommunication


class AlreadyRunning(DrmCommunication):
    """A daemon already runs for the state folder."""


class StateLock:
    """flock(2) on ``<state>/lock``, taken at once and given back at the end of the context.

    Raises:
        AlreadyRunning: another daemon holds it.
    """

    def __init__(self, state_dir: Path) -> None:
        self._descriptor = os.open(state_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            hint = "jobd status shows it; jobd shutdown stops it"
            raise AlreadyRunning(f"a daemon already runs for {state_dir}", hint=hint) from None

    def __enter__(self) -> StateLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give it back."""
        os.close(self._descriptor)
