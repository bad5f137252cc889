"""``jobd events``."""

from __future__ import annotations

import sys

from jobd.cli.connection import LONG_PATIENCE, PATIENCE, Connection, Daemon
from jobd.cli.options import Parser
from jobd.cli.show import cell, print_json, print_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main(words: list[str]) -> int:
    """State changes, a line each."""
    parser = Parser("events", "State changes, those that are kept and with -f those to come.")
    parser.add_argument("-f", "--follow", action="store_true", help="go on; without --since begin now")
    parser.add_argument("--since", type=int, metavar="SEQ", help="after this number (0: all that is kept)")
    parser.add_argument("--job", metavar="ID", help="of one job only")
    options = parser.parse_intermixed_args(words)
    since = options.since if options.since is not None or options.follow else 0
    _follow(Daemon(options), {"since": since, "follow": options.follow, "job": options.job}, as_json=options.json)
    return 0


def _follow(daemon: Daemon, params: dict[str, Any], *, as_json: bool) -> None:
    """Through any restart of the daemon: each time on after the last number."""

    def read(connection: Connection) -> None:
        number = connection.send("events", params)
        params["since"] = connection.result_of(number)["since"]
        for message in connection.stream(number):
            if message["method"] == "event_end":
                return
            event = message["params"]["event"]
            params["since"] = event["first"] - 1 if event.get("truncated") else event["seq"]
            _show(event, as_json=as_json)

    daemon.through_restarts(read, LONG_PATIENCE if params["follow"] else PATIENCE)


def _show(event: dict[str, Any], *, as_json: bool) -> None:
    if as_json or event.get("truncated"):
        print_json(event)
    else:
        names = ("seq", "at", "job_id", "tasks", "from", "to", "sub_state")
        print_lines(["\t".join(cell(event[name]) for name in names if name in event)])
    sys.stdout.flush()
