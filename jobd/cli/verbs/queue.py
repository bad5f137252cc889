"""``jobd queue``."""

from __future__ import annotations

from jobd.cli.actions import add_action
from jobd.cli.connection import Daemon
from jobd.cli.options import Parser
from jobd.cli.show import print_json, print_lines, print_table

_COLUMNS = ["name", "backend", "slots", "used", "waiting"]


def main(words: list[str]) -> int:
    """Local queues and how full they are."""
    parser = Parser("queue", "Local queues and how full they are.")
    add_action(parser, ("list",), default="list")
    options = parser.parse_args(words)
    result = Daemon(options).request("queue_list", {})
    if options.json:
        print_json(result)
    elif options.quiet:
        print_lines(row["name"] for row in result["queues"])
    else:
        print_table(_COLUMNS, result["queues"])
    return 0
