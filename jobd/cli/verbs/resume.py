"""``jobd resume``."""

from __future__ import annotations

from jobd.cli.controlling import control


def main(words: list[str]) -> int:
    """Let suspended jobs go on."""
    return control("resume", words, "Let suspended jobs go on.")
