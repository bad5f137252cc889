"""Processes that fell to the daemon, as a subreaper or as PID 1 of a container: reaped, but never a known child."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Collection

import anyio

from jobd.backends.process.keeper.tree import children, look

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Jobs of a keeper that dies fall to the daemon, where it is the keeper's ancestor (prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Orphans:
    """Reaps zombies that nobody asks for. A ``wait(-1)`` would steal the status of commands that somebody waits for.

    Args:
        known: pids whose status is somebody's: keepers, readers, followed jobs.
        quiet: False while a keeper has died and it is not sorted out yet which of its children are jobs.
    """

    def __init__(self, known: Callable[[], Collection[int]], quiet: Callable[[], bool]) -> None:
        self._known = known
        self._quiet = quiet

    async def run(self) -> None:
        """Look at each SIGCHLD, until cancelled."""
        with anyio.open_signal_receiver(signal.SIGCHLD) as received:
            self.reap()
            async for _ in received:
                self.reap()

    def reap(self) -> None:
        """Reap every zombie child that is not known, nor of the daemon's own session: there its commands are."""
        if not self._quiet():
            return
        known, session = self._known(), os.getsid(0)
        for pid in children(os.getpid()):
            seen = look(pid) if pid not in known else None
            if seen is not None and seen.state == "Z" and seen.session != session:
                _reap(pid)


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
