"""One job as the keeper knows it."""

from __future__ import annotations

import time

from jobd.backends.process.keeper.spawn import TICKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GRANTED = 0
FORKED = 1
RUNNING = 2
ENDED = 3


class Job:
    """An attempt: its order, where it stands, and the records that a new daemon is told.

    ``phase`` goes from GRANTED over FORKED (a child that has not come to its exec) and RUNNING to ENDED. ``freed``: its
    process group is empty, so its slots are. ``acked``: the daemon has its end on record. Clocks are seconds.
    """

    __slots__ = (
        "acked",
        "at",
        "boot",
        "cause",
        "ending",
        "error_pipe",
        "failed",
        "freed",
        "high",
        "leave",
        "on_continue",
        "left_since",
        "low",
        "phase",
        "pid",
        "ran",
        "records",
        "resumed",
        "settled",
        "slots",
        "spec",
        "stopped",
        "token",
        "unwritten",
    )

    def __init__(self, spec: dict[str, Any], record: bytes) -> None:
        self.spec: dict[str, Any] | None = spec
        self.token: bytes = spec["t"].encode()
        self.slots: int = spec.get("slots", 1)
        self.leave: bool = spec.get("leave", False)
        self.phase = GRANTED
        self.pid = 0
        self.low = self.high = 0
        self.at = 0.0
        self.boot = 0.0
        self.ran = 0.0
        self.resumed = 0.0
        self.stopped = False
        self.error_pipe = -1
        self.failed = b""
        self.cause: str | None = None
        self.ending: Any = None
        self.freed = False
        self.settled = False
        self.left_since = 0.0
        self.acked = False
        self.on_continue: Any = None
        self.unwritten = False
        self.records = [record]

    @property
    def active(self) -> bool:
        """Whether its leader is there."""
        return self.phase in (FORKED, RUNNING)

    def note_start(self) -> None:
        """The clocks just before it is started: a short job may have ended by the time that they are read after."""
        self.at = time.time()
        self.boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        self.low = int(self.boot * TICKS)

    def running_time(self, now: float) -> float:
        """Seconds that it has run by CLOCK_MONOTONIC, without those that it was stopped for."""
        return self.ran if self.stopped else self.ran + now - self.resumed
