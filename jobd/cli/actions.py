"""Verbs with actions: ``jobd session create NAME``."""

from __future__ import annotations

from jobd.cli.connection import Daemon
from jobd.cli.options import Parser
from jobd.cli.show import print_json, print_lines, print_table
from jobd.model.errors import InvalidArgument

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Sequence


def add_action(parser: Parser, actions: Collection[str], *, default: str | None = None) -> None:
    """The action as the first word."""
    nargs = "?" if default else None
    parser.add_argument(
        "action", choices=sorted(actions), nargs=nargs, default=default, metavar="|".join(sorted(actions))
    )


def list_rows(verb: str, description: str, columns: Sequence[str], words: list[str]) -> int:
    """A verb that lists: ``jobd queue list`` asks for ``queue_list`` and shows its ``queues``."""
    parser = Parser(verb, description)
    add_action(parser, ("list",), default="list")
    options = parser.parse_args(words)
    result = Daemon(options).request(f"{verb}_list", {})
    if options.json:
        print_json(result)
    elif options.quiet:
        print_lines(row["name"] for row in result[f"{verb}s"])
    else:
        print_table(columns, result[f"{verb}s"])
    return 0


def required(options: argparse.Namespace, name: str) -> str:
    """A word that an action needs.

    Raises:
        InvalidArgument: it is not there.
    """
    value: str | None = getattr(options, name)
    if value is None:
        raise InvalidArgument(f"{options.action} needs a {name.upper()}")
    return value
