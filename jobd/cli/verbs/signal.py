"""``jobd signal``."""

from __future__ import annotations

from jobd.cli.controlling import act
from jobd.cli.options import Parser, add_selection


def main(words: list[str]) -> int:
    """Send a signal to whole jobs, or to their leaders."""
    parser = Parser("signal", "Send a signal to all processes of jobs.")
    parser.add_argument("signal", metavar="SIG", help="a name such as USR1, in any case, or a number")
    add_selection(parser)
    parser.add_argument("--leader", action="store_true", help="only the leader gets it")
    options = parser.parse_intermixed_args(_without_dash(words))
    return act("signal", options, {"signal": options.signal, "leader": options.leader})


def _without_dash(words: list[str]) -> list[str]:
    """``-USR1`` as kill(1) takes it."""
    return [word[1:] if _is_signal(word) else word for word in words]


def _is_signal(word: str) -> bool:
    return len(word) > 2 and word[0] == "-" and word[1] != "-" and (word[1:].isupper() or word[1:].isdigit())
