"""``jobd show``."""

from __future__ import annotations

from jobd.cli.connection import Daemon
from jobd.cli.options import Parser, add_selection, selection
from jobd.cli.show import print_fields, print_json, print_lines


def main(words: list[str]) -> int:
    """Everything about jobs."""
    parser = Parser("show", "Everything about jobs: info, template, attempts, events, files.")
    add_selection(parser)
    options = parser.parse_intermixed_args(words)
    jobs = Daemon(options).request("show", {"selection": selection(options)})["jobs"]
    if options.json:
        print_json({"jobs": jobs})
    elif options.quiet:
        print_lines(job["job_id"] for job in jobs)
    else:
        for job in jobs:
            print_fields(job)
    return 0
