"""Options that many verbs share."""

from __future__ import annotations

import argparse

from jobd import __version__
from jobd.model.errors import InvalidArgument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are jobd's."""

    def __init__(self, verb: str, description: str, **options: Any) -> None:
        super().__init__(prog=f"jobd {verb}", description=description, allow_abbrev=False, **options)
        add_common(self)

    def error(self, message: str) -> NoReturn:
        """Bad usage.

        Raises:
            InvalidArgument: always.
        """
        raise InvalidArgument(message, hint=f"{self.prog} --help tells more")


def add_common(parser: argparse.ArgumentParser) -> None:
    """What every verb takes."""
    group = parser.add_argument_group("everywhere")
    group.add_argument("--socket", metavar="PATH", help="the daemon's socket (JOBD_SOCKET)")
    group.add_argument("--json", action="store_true", help="JSON on stdout")
    group.add_argument("--no-autostart", action="store_true", help="never start a daemon (JOBD_NO_AUTOSTART=1)")
    group.add_argument("-q", "--quiet", action="store_true", help="ids only")
    group.add_argument("--version", action="version", version=f"jobd {__version__}")


def add_selection(parser: argparse.ArgumentParser, *, ids: str = "*") -> None:
    """Which jobs."""
    parser.add_argument("ids", metavar="ID", nargs=ids, help="42, 42.7, 3-9 or last")
    add_filters(parser)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Selection of jobs by what they are."""
    group = parser.add_argument_group("selection")
    group.add_argument("--session", metavar="S", help="jobs of a session")
    group.add_argument("--label", metavar="K=V", action="append", default=[], help="jobs with a label")
    group.add_argument("--state", metavar="ST", action="append", default=[], help="jobs in a state")
    group.add_argument("--queue", metavar="Q", help="jobs of a queue")
    group.add_argument("--backend", metavar="B", help="jobs of a backend")
    group.add_argument("--all", action="store_true", help="all jobs")


def selection(options: argparse.Namespace) -> dict[str, Any]:
    """The selection on the wire."""
    found: dict[str, Any] = {"ids": getattr(options, "ids", [])}
    for name in ("session", "queue", "backend"):
        if getattr(options, name) is not None:
            found[name] = getattr(options, name)
    if options.label:
        found["labels"] = pairs(options.label, "--label")
    if options.state:
        found["states"] = options.state
    if options.all:
        found["all"] = True
    return found


def pairs(words: Sequence[str], option: str) -> dict[str, str]:
    """``K=V`` words as a dictionary.

    Raises:
        InvalidArgument: a word has no ``=``.
    """
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise InvalidArgument(f"{option} takes NAME=VALUE, not {word!r}")
        found[name] = value
    return found
