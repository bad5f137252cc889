"""Job states and the table of every transition (DRMAA2 GFD.231, job state model). Standard library only.

The table is total: for each state and each trigger it says which state follows, that the trigger changes nothing (a
report that came twice), or that it is not allowed. Only the bookkeeper applies it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping


class JobState(enum.IntEnum):
    """The states of DRMAA2, with the numbers of its C binding; these are the numbers in the database."""

    UNDETERMINED = 0
    QUEUED = 1
    QUEUED_HELD = 2
    RUNNING = 3
    SUSPENDED = 4
    REQUEUED = 5
    REQUEUED_HELD = 6
    DONE = 7
    FAILED = 8

    @property
    def final(self) -> bool:
        """Whether a job in this state has ended for good."""
        return self >= JobState.DONE

    @property
    def waiting(self) -> bool:
        """Whether a job in this state has not been started, or not again."""
        return self in _WAITING

    @property
    def started(self) -> bool:
        """Whether a job in this state is in DRMAA2's Started group: it has processes."""
        return self in (JobState.RUNNING, JobState.SUSPENDED)


_WAITING = frozenset({JobState.QUEUED, JobState.QUEUED_HELD, JobState.REQUEUED, JobState.REQUEUED_HELD})


class Trigger(enum.Enum):
    """What can happen to a job."""

    HOLD = "hold"
    RELEASE = "release"
    START = "start"
    STOP = "stop"
    CONTINUE = "continue"
    REQUEUE = "requeue"
    SUCCEED = "succeed"
    FAIL = "fail"
    LOSE_SIGHT = "lose sight"


class Refusal(enum.Enum):
    """Cells of the table that name no state."""

    UNCHANGED = "unchanged"
    """The trigger says what is known already; nothing changes and nothing is published."""
    INVALID = "invalid"
    """The state does not allow it: InvalidState for a request; an observation like this is logged and dropped."""


_S = JobState
_T = Trigger
_SAME, _NO = Refusal.UNCHANGED, Refusal.INVALID
_ORDER = (_T.HOLD, _T.RELEASE, _T.START, _T.STOP, _T.CONTINUE, _T.REQUEUE, _T.SUCCEED, _T.FAIL, _T.LOSE_SIGHT)

# fmt: off
_ROWS: Mapping[JobState, tuple[JobState | Refusal, ...]] = {
    # ruff: noqa: E501 (a table is read by its columns)
    #                 HOLD              RELEASE      START       STOP          CONTINUE    REQUEUE      SUCCEED  FAIL      LOSE_SIGHT
    _S.UNDETERMINED:  (_NO,             _NO,         _S.RUNNING, _S.SUSPENDED, _S.RUNNING, _S.REQUEUED, _S.DONE, _S.FAILED, _SAME),
    _S.QUEUED:        (_S.QUEUED_HELD,  _NO,         _S.RUNNING, _NO,          _NO,        _SAME,       _S.DONE, _S.FAILED, _S.UNDETERMINED),
    _S.QUEUED_HELD:   (_NO,             _S.QUEUED,   _S.RUNNING, _NO,          _NO,        _SAME,       _S.DONE, _S.FAILED, _S.UNDETERMINED),
    _S.RUNNING:       (_NO,             _NO,         _SAME,      _S.SUSPENDED, _SAME,      _S.REQUEUED, _S.DONE, _S.FAILED, _S.UNDETERMINED),
    _S.SUSPENDED:     (_NO,             _NO,         _SAME,      _SAME,        _S.RUNNING, _S.REQUEUED, _S.DONE, _S.FAILED, _S.UNDETERMINED),
    _S.REQUEUED:      (_S.REQUEUED_HELD, _NO,        _S.RUNNING, _NO,          _NO,        _SAME,       _S.DONE, _S.FAILED, _S.UNDETERMINED),
    _S.REQUEUED_HELD: (_NO,             _S.REQUEUED, _S.RUNNING, _NO,          _NO,        _SAME,       _S.DONE, _S.FAILED, _S.UNDETERMINED),
    _S.DONE:          (_NO,             _NO,         _SAME,      _NO,          _NO,        _NO,         _SAME,   _NO,       _NO),
    _S.FAILED:        (_NO,             _NO,         _SAME,      _NO,          _NO,        _NO,         _NO,     _SAME,     _NO),
}
# fmt: on

TRANSITIONS: Mapping[tuple[JobState, Trigger], JobState | Refusal] = {
    (state, trigger): cell for state, row in _ROWS.items() for trigger, cell in zip(_ORDER, row, strict=True)
}
"""What follows on each trigger in each state."""


def _reachable(start: JobState) -> frozenset[JobState]:
    seen, todo = {start}, [start]
    while todo:
        row = _ROWS[todo.pop()]
        fresh = {cell for cell in row if isinstance(cell, JobState)} - seen
        seen |= fresh
        todo += fresh
    return frozenset(seen)


REACHABLE: Mapping[JobState, frozenset[JobState]] = {state: _reachable(state) for state in JobState}
"""The states that a job can still come to (its present one among them): what a wait may hope for."""
