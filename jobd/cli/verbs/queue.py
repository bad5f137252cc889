"""``jobd queue``."""

from __future__ import annotations

from jobd.cli.actions import list_rows

_COLUMNS = ["name", "backend", "slots", "used", "waiting"]


def main(words: list[str]) -> int:
    """Local queues and how full they are."""
    return list_rows("queue", "Local queues and how full they are.", _COLUMNS, words)
