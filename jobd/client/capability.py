"""DRMAA2's optional features (Capability), and whether this daemon has them."""

from __future__ import annotations

import enum
from collections.abc import Container, Mapping


class Capability(enum.Enum):
    """What an implementation of DRMAA2 may leave out."""

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


_NEEDED: Mapping[Capability, frozenset[str]] = {
    Capability.JT_EMAIL: frozenset({"email", "email_on_started", "email_on_terminated"}),
    Capability.JT_STAGING: frozenset({"stage_in_files", "stage_out_files"}),
    Capability.JT_DEADLINE: frozenset({"deadline_time"}),
    Capability.JT_MAXSLOTS: frozenset({"max_slots"}),
    Capability.JT_ACCOUNTINGID: frozenset({"accounting_id"}),
}
"""The template attributes that a capability stands for. The others stand for what no backend of jobd does."""


def supported(capability: Capability, attributes: Container[str]) -> bool:
    """Whether a backend that honours these template attributes has a capability."""
    needed = _NEEDED.get(capability)
    return needed is not None and all(name in attributes for name in needed)
