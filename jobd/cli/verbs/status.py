"""``jobd status``."""

from __future__ import annotations

from jobd.cli.connection import Daemon
from jobd.cli.options import Parser
from jobd.cli.show import print_fields, print_json

_NOT_READY = 69


def main(words: list[str]) -> int:
    """How the daemon is; 69 until it is ready. Never starts one."""
    parser = Parser("status", "How the daemon is.")
    options = parser.parse_args(words)
    result = Daemon(options, autostart=False).request("status", {})
    if options.json:
        print_json(result)
    else:
        backends = {one["name"]: "ok" if one["ok"] else one["last_error"] for one in result["backends"]}
        print_fields({**result, "backends": backends})
    return 0 if result["ready"] else _NOT_READY
