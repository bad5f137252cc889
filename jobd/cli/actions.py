"""Verbs with actions: ``jobd session create NAME``."""

from __future__ import annotations

from jobd.cli.options import Parser
from jobd.model.errors import InvalidArgument

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection


def add_action(parser: Parser, actions: Collection[str], *, default: str | None = None) -> None:
    """The action as the first word."""
    nargs = "?" if default else None
    parser.add_argument(
        "action", choices=sorted(actions), nargs=nargs, default=default, metavar="|".join(sorted(actions))
    )


def required(options: argparse.Namespace, name: str) -> str:
    """A word that an action needs.

    Raises:
        InvalidArgument: it is not there.
    """
    value: str | None = getattr(options, name)
    if value is None:
        raise InvalidArgument(f"{options.action} needs a {name.upper()}")
    return value
