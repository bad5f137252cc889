"""``jobd wait``."""

from __future__ import annotations

import time

from jobd.cli.connection import Connection, Daemon
from jobd.cli.exit_codes import outcome
from jobd.cli.options import Parser, add_selection, selection
from jobd.cli.show import print_json, print_lines
from jobd.model.units import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main(words: list[str]) -> int:
    """Wait until jobs have ended, started or come to a state."""
    parser = Parser("wait", "Wait for jobs; for one job's end, exits as it did.")
    add_selection(parser)
    parser.add_argument("--for", dest="goal", metavar="terminated|started|STATE", default="terminated")
    parser.add_argument("--any", action="store_true", help="until one of the jobs is there")
    parser.add_argument("--timeout", metavar="S", help="seconds; 0 asks and returns")
    options = parser.parse_intermixed_args(words)
    params = {
        "selection": selection(options),
        "for": options.goal,
        "any": options.any,
        "timeout": None if options.timeout is None else parse_duration(options.timeout),
    }
    jobs = _wait(Daemon(options), params)
    if options.json:
        print_json({"jobs": jobs})
    elif options.quiet:
        print_lines(job["job_id"] for job in jobs)
    return _code(jobs, options.goal, any_of=options.any)


def _wait(daemon: Daemon, params: dict[str, Any]) -> list[dict[str, Any]]:
    """Through any restart of the daemon; the time-out goes on meanwhile."""
    until = None if params["timeout"] is None else time.monotonic() + params["timeout"]

    def ask(connection: Connection) -> list[dict[str, Any]]:
        if until is not None:
            params["timeout"] = max(0.0, until - time.monotonic())
        found: list[dict[str, Any]] = connection.result_of(connection.send("wait", params))["jobs"]
        return found

    return daemon.through_restarts(ask)


def _code(jobs: list[dict[str, Any]], goal: str, *, any_of: bool) -> int:
    if goal != "terminated" or not jobs:
        return 0
    if len(jobs) == 1 or any_of:
        return outcome(jobs[0])
    return 0 if all(job["state"] == "DONE" for job in jobs) else 1
