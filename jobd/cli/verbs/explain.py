"""``jobd explain``."""

from __future__ import annotations

from jobd.cli.connection import Daemon
from jobd.cli.options import Parser, add_selection, selection
from jobd.cli.show import cell, print_json, print_lines


def main(words: list[str]) -> int:
    """Why jobs are not running, or why and how they ended."""
    parser = Parser("explain", "Why a job is not running, or why and how it ended.")
    add_selection(parser)
    options = parser.parse_intermixed_args(words)
    jobs = Daemon(options).request("explain", {"selection": selection(options)})["jobs"]
    if options.json:
        print_json({"jobs": jobs})
    else:
        print_lines(f"{job['job_id']} {job['state']}: {cell(job['explanation'])}" for job in jobs)
    return 0
