"""``jobd backend``."""

from __future__ import annotations

from jobd.cli.actions import list_rows

_COLUMNS = ["name", "kind", "ok", "last_error", "jobs", "operations"]


def main(words: list[str]) -> int:
    """The places where jobs run, and how they are."""
    return list_rows("backend", "The places where jobs run, and how they are.", _COLUMNS, words)
