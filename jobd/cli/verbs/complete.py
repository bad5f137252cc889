"""``jobd __complete``: words that may come next, for the completion scripts. Works when the daemon is down, too."""

from __future__ import annotations

from jobd.cli import VERBS
from jobd.cli.connection import Daemon
from jobd.cli.options import Parser
from jobd.cli.show import print_lines
from jobd.model.errors import JobdError

_WITH_IDS = frozenset("show explain wait logs suspend resume hold release terminate cancel signal reap rm".split())
_ACTIONS = {
    "session": ("list", "create", "remove"),
    "queue": ("list",),
    "backend": ("list",),
    "config": ("check", "show"),
    "completion": ("bash", "zsh", "fish"),
}
_PATIENCE = 0.2


def main(words: list[str]) -> int:
    """Print the words that may follow the given ones."""
    if len(words) < 1 or (len(words) == 1 and words[0] not in _ACTIONS and words[0] not in _WITH_IDS):
        print_lines(verb for verb in VERBS if not verb.startswith("_"))
    elif words[0] in _ACTIONS:
        print_lines(_ACTIONS[words[0]])
    elif words[0] in _WITH_IDS:
        print_lines(_ids())
    return 0


def _ids() -> list[str]:
    options = Parser("__complete", "").parse_args([])
    try:
        jobs = Daemon(options, autostart=False).request("list", {"limit": 50}, patience=_PATIENCE)["jobs"]
    except JobdError:
        return ["last"]
    return ["last", *(job["job_id"] for job in jobs)]
