"""``jobd session``."""

from __future__ import annotations

from jobd.cli.actions import add_action, required
from jobd.cli.connection import Daemon
from jobd.cli.options import Parser
from jobd.cli.show import print_json, print_lines, print_table


def main(words: list[str]) -> int:
    """Job sessions: list, create, remove."""
    parser = Parser("session", "Job sessions.")
    add_action(parser, ("list", "create", "remove"))
    parser.add_argument("name", metavar="NAME", nargs="?")
    parser.add_argument("--contact", metavar="TEXT", help="kept with a new session as it is")
    options = parser.parse_args(words)
    daemon = Daemon(options)
    if options.action == "create":
        result = daemon.request("session_create", {"name": required(options, "name"), "contact": options.contact})
    elif options.action == "remove":
        result = daemon.request("session_destroy", {"name": required(options, "name")})
    else:
        result = daemon.request("session_list", {})
    if options.json:
        print_json(result)
    elif options.action == "list":
        print_table(["name", "contact"], result["sessions"])
    elif options.action == "create":
        print_lines([result["name"]])
    return 0
