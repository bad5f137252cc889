"""How many starts are granted ahead of free slots, from how long such jobs take.

A round trip to the daemon for each start of a very short job halves the throughput (docs/architecture.md has the
figures), and a grant ahead of a long job gains nothing, so: work for a few tens of milliseconds, none from a second.
"""

from __future__ import annotations

AHEAD_SECONDS = 0.05
MOST_AHEAD = 64
LONG_JOB = 1.0
_WEIGHT = 0.2


class AheadEstimate:
    """A moving average of how long jobs take, and the number of grants ahead that follows from it."""

    def __init__(self) -> None:
        self._mean: float | None = None

    def ended(self, seconds: float) -> None:
        """Take in how long a job ran."""
        self._mean = seconds if self._mean is None else self._mean + _WEIGHT * (seconds - self._mean)

    def slots_ahead(self, slots: int) -> int:
        """Slots to grant beyond the free ones, of ``slots`` in all. 0 until a job was seen to end."""
        if self._mean is None or self._mean >= LONG_JOB:
            return 0
        return min(MOST_AHEAD, int(AHEAD_SECONDS / max(self._mean, 0.0005) * slots))
