"""``jobd hold``."""

from __future__ import annotations

from jobd.cli.controlling import control


def main(words: list[str]) -> int:
    """Keep waiting jobs from starting."""
    return control("hold", words, "Keep waiting jobs from starting.")
