"""Optional parts of DRMAA2 (GFD.231, "DrmaaCapability"), and which of them there are."""

from __future__ import annotations

import enum


class Capability(enum.Enum):
    """What ``supports`` can be asked for; the values are those of the standard's C binding."""

    ADVANCE_RESERVATION = 0
    RESERVE_SLOTS = 1
    CALLBACK = 2
    BULK_JOBS_MAXPARALLEL = 3
    JT_EMAIL = 4
    JT_STAGING = 5
    JT_DEADLINE = 6
    JT_MAXSLOTS = 7
    JT_ACCOUNTINGID = 8
    RT_STARTNOW = 9
    RT_DURATION = 10
    RT_MACHINEOS = 11
    RT_MACHINEARCH = 12


SUPPORTED: frozenset[Capability] = frozenset()
"""None of the optional parts yet: a template that asks for one is refused by name."""
