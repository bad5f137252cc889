"""What became of the jobs of a keeper that is dead, from its journal and what the kernel still shows. Decisions are pure."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from jobd.backends.base import EndedSeen, Observation, RefusedSeen
from jobd.backends.process.keeper.journal import read_journal
from jobd.backends.process.keeper.tree import look
from jobd.backends.process.wire import Record, observation
from jobd.model.ids import JobId
from jobd.model.status import Unknown


class Identity(msgspec.Struct, frozen=True):
    """A leader as a journal tells of it: pid, bracket of its start tick, CLOCK_BOOTTIME seconds of its start."""

    pid: int
    low: int
    high: int
    boot: float


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
    token: str
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
    past: Past | None, id: JobId, attempt: int, *, was_running: bool, same_boot: bool, now: float, find: Callable[[], int | None]
) -> Observation | Found | None:
    """What is to be made of an attempt that a dead keeper has no end for; None where its end is on record.

    ``find`` looks for the leader: its pid if it runs, None if not.
    """
    if past is not None and past.ended:
        return None
    if not was_running and (past is None or not (past.starting or past.identity)):
        return RefusedSeen(id, attempt)
    if not same_boot:
        return lost(id, attempt, now, "node-rebooted", "The machine was rebooted while it ran.", past)
    pid = find()
    if past is not None and past.identity is not None and pid == past.identity.pid:
        return Found(id, attempt, past.token, past.identity, past.cause)
    if pid is not None:
        return Found(id, attempt, past.token if past else "", Identity(pid, 0, 1 << 62, 0.0), None)
    why = "Its keeper died, and it ended while nobody who could be told its exit status was there."
    return lost(id, attempt, now, None, why, past)


def lost(id: JobId, attempt: int, now: float, sub_state: str | None, why: str, past: Past | None = None) -> EndedSeen:
    """The end of a job whose exit status can't be known."""
    return EndedSeen(
        id=id,
        attempt=attempt,
        outcome=Unknown(),
        at=now,
        cause=past.cause if past else None,
        sub_state=sub_state or ("exit-status-unknown" if not (past and past.cause) else None),
        annotation=why,
    )


def still_runs(identity: Identity) -> bool:
    """Whether a pid is still the process of the journal: pids are reused, and so the start tick has to fit.

    The bracket is a tick wide of rounding on both sides.
    """
    seen = look(identity.pid)
    return seen is not None and identity.low - 1 <= seen.tick <= identity.high + 1


def find_by_token(token: str) -> int | None:
    """The process that leads a session and has a token in its environment; the oldest of several. Blocking."""
    wanted = b"JOBD_TOKEN=" + token.encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and _has(int(name), wanted):
            seen = look(int(name))
            if seen is not None and seen.session == seen.pid and seen.state != "Z":
                found.append((seen.tick, seen.pid))
    return min(found)[1] if found else None


def _has(pid: int, wanted: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return wanted in file.read().split(b"\0")
    except OSError:
        return False


def boot_id() -> str:
    """This boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()

