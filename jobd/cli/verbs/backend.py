"""``jobd backend``."""

from __future__ import annotations

from jobd.cli.actions import add_action
from jobd.cli.connection import Daemon
from jobd.cli.options import Parser
from jobd.cli.show import print_json, print_lines, print_table

_COLUMNS = ["name", "kind", "ok", "last_error", "jobs", "operations"]


def main(words: list[str]) -> int:
    """The places where jobs run, and how they are."""
    parser = Parser("backend", "The places where jobs run, and how they are.")
    add_action(parser, ("list",), default="list")
    options = parser.parse_args(words)
    result = Daemon(options).request("backend_list", {})
    if options.json:
        print_json(result)
    elif options.quiet:
        print_lines(row["name"] for row in result["backends"])
    else:
        print_table(_COLUMNS, result["backends"])
    return 0
