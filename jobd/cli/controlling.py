"""The verbs that act on several jobs: each is tried, those that failed are named, the first failure's code counts."""

from __future__ import annotations

from jobd.cli.connection import Daemon
from jobd.cli.failing import report
from jobd.cli.options import Parser, add_selection, selection
from jobd.cli.show import print_json, print_lines
from jobd.model.errors import from_wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def control(method: str, words: list[str], description: str) -> int:
    """A verb that takes nothing but jobs."""
    parser = Parser(method, description)
    add_selection(parser)
    options = parser.parse_intermixed_args(words)
    return act(method, options, {})


def act(method: str, options: argparse.Namespace, params: dict[str, Any]) -> int:
    """Ask for it, and show what came of it."""
    result = Daemon(options).request(method, {"selection": selection(options), **params})
    errors = [from_wire(row["error"]) for row in result["failed"]]
    if options.json:
        print_json(result)
    elif options.quiet:
        print_lines(result["done"])
    for error in errors:
        report(error, as_json=options.json)
    return errors[0].exit_code if errors else 0
