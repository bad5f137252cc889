"""What the keeper says, in the daemon's words: records become observations. Pure."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from jobd.backends.base import (
    ContinuedSeen,
    EndedSeen,
    FreedSeen,
    Observation,
    RefusedSeen,
    StartedSeen,
    StoppedSeen,
)
from jobd.model.ids import JobId
from jobd.model.status import Exited, NotStarted, Outcome, Signalled, Usage
from jobd.model.tokens import parse_token

Record = Mapping[str, Any]


def observation(record: Record, keeper: str, machine: str) -> Observation | None:
    """What a record tells; None for one that tells nothing of a job's state."""
    named = parse_token(str(record.get("t", "")))
    if named is None:
        return None
    id, attempt = named
    match record["k"]:
        case "started":
            return _started(id, attempt, record, keeper, machine)
        case "executed":
            return _executed(id, attempt, keeper, machine)
        case "stopped":
            return StoppedSeen(id, attempt)
        case "continued":
            return ContinuedSeen(id, attempt)
        case "ended":
            return ended(id, attempt, record, machine)
        case "freed":
            return FreedSeen(id, attempt)
        case "refused":
            return RefusedSeen(id, attempt, f"{record['text']} ({record['errno']})")
    return None


def _started(id: JobId, attempt: int, record: Record, keeper: str, machine: str) -> StartedSeen:
    return StartedSeen(
        id=id,
        attempt=attempt,
        native_id=str(record["pid"]),
        at=record["at"],
        machine=machine,
        granted_to=keeper,
        executed=record["x"],
    )


def _executed(id: JobId, attempt: int, keeper: str, machine: str) -> StartedSeen:
    """The second report of a forked child; pid and time are those of the first, which is on record by now."""
    return StartedSeen(id=id, attempt=attempt, native_id="", at=0.0, machine=machine, granted_to=keeper)


def ended(id: JobId, attempt: int, record: Record, machine: str) -> EndedSeen:
    """A leader's end."""
    return EndedSeen(
        id=id,
        attempt=attempt,
        outcome=_outcome(record),
        at=record["at"],
        native_id=str(record["pid"]),
        machine=machine,
        wallclock_time=record["wall"],
        usage=Usage(record["ut"], record["st"], record["rss"], record["ib"], record["ob"]),
        cause=record.get("cause"),
        freed=record["freed"],
    )


def _outcome(record: Record) -> Outcome:
    if "step" in record:
        return NotStarted(record["step"], record["errno"])
    if "sig" in record:
        return Signalled(signal_name(record["sig"]), record["core"])
    return Exited(record["status"])


def signal_name(number: int) -> str:
    """SIGKILL for 9; real-time signals, most of which have no name in Python, as SIGRTMIN+N."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"
