"""What became of a dead keeper's jobs, from its journal and what the kernel still shows. Decisions are pure."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from jobd.backends.base import EndedSeen, Observation, RefusedSeen
from jobd.backends.process.keeper.journal import read_journal
from jobd.backends.process.keeper.spawn import TICKS
from jobd.backends.process.keeper.tree import Process, look
from jobd.backends.process.wire import Record, observation
from jobd.model.ids import JobId
from jobd.model.job import Tasks
from jobd.model.status import Active, Unknown

NODE_REBOOTED = "node-rebooted"
"""The sub-state of a job whose machine went down under it."""


class Boot(msgspec.Struct, frozen=True):
    """A boot of the machine: its id, and when it began, in seconds since the epoch by the wall clock as it is now."""

    id: str
    began: float


class Identity(msgspec.Struct, frozen=True):
    """A leader as a journal tells of it: pid, bracket of its start tick, CLOCK_BOOTTIME seconds of its start."""

    pid: int
    low: int
    high: int
    boot: float

    @property
    def ticks(self) -> range:
        """The start ticks that are its own: the bracket is a tick wide of rounding on both sides."""
        return range(self.low - 1, self.high + 2)


class Past(msgspec.Struct):
    """What a journal tells of one attempt, in order."""

    token: str
    records: list[Record] = msgspec.field(default_factory=list)
    starting: bool = False
    identity: Identity | None = None
    ended: bool = False
    cause: str | None = None


class Found(msgspec.Struct, frozen=True):
    """An attempt whose leader still runs: to be followed."""

    id: JobId
    attempt: int
    identity: Identity
    cause: str | None


def is_dead(folder: Path) -> bool:
    """Whether a keeper has died: its lock can be had. A keeper that is only stopped holds it."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def read_past(folder: Path) -> tuple[str | None, dict[str, Past]]:
    """The boot of a dead keeper and what it had to do with each attempt; nothing where it left no journal. Blocking."""
    try:
        records = read_journal(os.fspath(folder))
    except FileNotFoundError:
        return None, {}
    return replay(records)


def replay(records: Iterable[Record]) -> tuple[str | None, dict[str, Past]]:
    """Put the records of a journal together by attempt."""
    boot: str | None = None
    pasts: dict[str, Past] = {}
    for record in records:
        if record["k"] == "keeper":
            boot = str(record["boot"])
            continue
        token = str(record["t"])
        if record["k"] in ("revoked", "refused"):
            pasts.pop(token, None)
            continue
        _add(pasts.setdefault(token, Past(token)), record)
    return boot, pasts


def _add(past: Past, record: Record) -> None:
    past.records.append(record)
    match record["k"]:
        case "starting":
            past.starting = True
        case "started":
            past.identity = Identity(record["pid"], record["lo"], record["hi"], record["boot"])
        case "cause":
            past.cause = record["cause"]
        case "ended":
            past.ended = True


def told(past: Past, keeper: str, machine: str) -> list[Observation]:
    """What the journal's records say of the job's state."""
    return [seen for record in past.records if (seen := observation(record, keeper, machine)) is not None]


def unfinished(
    past: Past | None, tasks: Tasks, *, rebooted: bool, now: float, leader: Identity | None
) -> Observation | Found | None:
    """What is to be made of an attempt whose keeper can't be asked any more; None where its end is on record.

    Args:
        past: what the keeper's journal tells of it, if anything.
        tasks: what the store has of it.
        rebooted: whether the machine went down since it was started.
        now: the wall clock, seconds since the epoch.
        leader: its leader, if that still runs.
    """
    if past is not None and past.ended:
        return None
    if leader is not None:
        return Found(tasks.id, tasks.attempt, leader, (past.cause if past else None) or tasks.cause)
    if not isinstance(tasks.status, Active) and (past is None or not (past.starting or past.identity)):
        return RefusedSeen(tasks.id, tasks.attempt)
    cause = past.cause if past else None
    if rebooted:
        return lost(tasks, now, "The machine was rebooted while it ran.", cause, NODE_REBOOTED)
    return lost(tasks, now, "Its keeper died, and nobody was there who could be told how it ended.", cause)


def lost(tasks: Tasks, now: float, why: str, cause: str | None, sub_state: str | None = None) -> EndedSeen:
    """The end of a job whose exit status can't be known. With a cause it is FAILED for that, whatever its status."""
    return EndedSeen(
        id=tasks.id,
        attempt=tasks.attempt,
        outcome=Unknown(),
        at=now,
        cause=cause,
        sub_state=sub_state,
        annotation=why,
    )


def rebooted_since(journal_boot: str | None, tasks: Tasks, boot: Boot) -> bool:
    """Whether the machine went down since an attempt was started: by its journal's boot id, else by the wall clock."""
    if journal_boot is not None:
        return journal_boot != boot.id
    return isinstance(tasks.status, Active) and tasks.status.dispatch_time < boot.began


def find_leader(past: Past | None, token: str, *, same_boot: bool) -> Identity | None:
    """The leader of an attempt, if it still runs. Blocking.

    A pid from a journal counts only with its start tick and in the boot that it was written in. Where the journal has
    none, the token is looked for, which is unique among all boots and machines.
    """
    if past is not None and past.identity is not None:
        return past.identity if same_boot and still_runs(past.identity) else None
    found = find_by_token(token)
    return None if found is None else Identity(found.pid, found.tick, found.tick, found.tick / TICKS)


def still_runs(identity: Identity) -> bool:
    """Whether a pid is still the process of the journal: pids are reused, and so the start tick has to fit."""
    seen = look(identity.pid)
    return seen is not None and seen.tick in identity.ticks


def find_by_token(token: str) -> Process | None:
    """The process that leads a session and has a token in its environment; the oldest of several. Blocking."""
    wanted = b"JOBD_TOKEN=" + token.encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and _has(int(name), wanted):
            seen = look(int(name))
            if seen is not None and seen.session == seen.pid and seen.state != "Z":
                found.append(seen)
    return min(found, key=lambda process: process.tick, default=None)


def _has(pid: int, wanted: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return wanted in file.read().split(b"\0")
    except OSError:
        return False


def this_boot() -> Boot:
    """This boot of the machine. Blocking."""
    id = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return Boot(id, time.time() - time.clock_gettime(time.CLOCK_BOOTTIME))
