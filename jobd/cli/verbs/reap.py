"""``jobd reap``."""

from __future__ import annotations

from jobd.cli.controlling import control


def main(words: list[str]) -> int:
    """Forget finished jobs."""
    return control("reap", words, "Forget finished jobs and their captured output.")
