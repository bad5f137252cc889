"""``jobd doctor``: what is wrong here, and what to do about it. Works without a daemon."""

from __future__ import annotations

from jobd.cli.options import Parser
from jobd.cli.show import print_json, print_lines


def main(words: list[str]) -> int:
    """Look at everything that is known to go wrong; 1 if something is."""
    parser = Parser("doctor", "What is wrong here, and what to do about it.")
    options = parser.parse_args(words)
    from jobd.cli.checks import examine

    findings = examine(options)
    if options.json:
        print_json({"findings": [finding._asdict() for finding in findings]})
    else:
        print_lines(f"{finding.level}\t{finding.about}\t{finding.text}" for finding in findings)
    return 1 if any(finding.level == "wrong" for finding in findings) else 0
