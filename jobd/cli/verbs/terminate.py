"""``jobd terminate``."""

from __future__ import annotations

from jobd.cli.controlling import act
from jobd.cli.options import Parser, add_selection
from jobd.model.units import parse_duration


def main(words: list[str]) -> int:
    """End jobs: TERM, grace, KILL; returns when their trees are gone."""
    parser = Parser("terminate", "End jobs with all their processes; returns when they are gone.")
    add_selection(parser)
    parser.add_argument("--grace", metavar="S", default="10", help="seconds between TERM and KILL (10)")
    parser.add_argument("--now", action="store_true", help="KILL at once")
    options = parser.parse_intermixed_args(words)
    return act("terminate", options, {"grace": 0.0 if options.now else parse_duration(options.grace)})
