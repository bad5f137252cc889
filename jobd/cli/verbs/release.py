"""``jobd release``."""

from __future__ import annotations

from jobd.cli.controlling import control


def main(words: list[str]) -> int:
    """Let held jobs start."""
    return control("release", words, "Let held jobs start.")
