"""The name of an attempt: what recovery looks for, in journals and in environments of processes."""

from __future__ import annotations

import re

from jobd.model.ids import JobId

_TOKEN = re.compile(r"([0-9a-f]+)-([0-9]+)\.([0-9]+)-([0-9]+)\Z", re.ASCII)


def make_token(store_id: str, id: JobId, attempt: int) -> str:
    """``<store>-<job>.<task>-<attempt>``: unique among all stores and all their attempts."""
    return f"{store_id}-{id.job}.{id.task}-{attempt}"


def parse_token(token: str) -> tuple[JobId, int] | None:
    """The job and the attempt that a token names; None for what is no token."""
    match = _TOKEN.match(token)
    return None if match is None else (JobId(int(match[2]), int(match[3])), int(match[4]))
