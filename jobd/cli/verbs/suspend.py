"""``jobd suspend``."""

from __future__ import annotations

from jobd.cli.controlling import control


def main(words: list[str]) -> int:
    """Stop running jobs; returns once they are seen stopped."""
    return control("suspend", words, "Stop running jobs; returns once they are seen stopped.")
