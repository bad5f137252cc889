"""``jobd list``."""

from __future__ import annotations

from jobd.cli.connection import Daemon
from jobd.cli.options import Parser, add_selection, selection
from jobd.cli.show import cell, print_json, print_lines, print_table
from jobd.model.errors import InvalidArgument
from jobd.model.suggest import unknown_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_COLUMNS = [
    "job_id",
    "job_name",
    "state",
    "sub_state",
    "exit_status",
    "queue_name",
    "slots",
    "submission_time",
    "wallclock_time",
]
_LIMIT = 20


def main(words: list[str]) -> int:
    """Active jobs and the newest finished ones."""
    parser = Parser("list", "Active jobs and the newest finished ones.")
    add_selection(parser)
    parser.add_argument("--limit", type=int, default=_LIMIT, metavar="N", help=f"finished jobs at most ({_LIMIT})")
    parser.add_argument("--since", metavar="TIME", help="submitted since then")
    parser.add_argument("--sort", metavar="FIELD", help="by this field")
    parser.add_argument("-o", "--columns", metavar="COLS", help="fields to show, separated by commas")
    options = parser.parse_intermixed_args(words)
    if options.limit < 0:
        raise InvalidArgument("--limit must be 0 or more")
    jobs = Daemon(options).request("list", _params(options))["jobs"]
    _sort(jobs, options.sort)
    if options.json:
        print_json({"jobs": jobs})
    elif options.quiet:
        print_lines(job["job_id"] for job in jobs)
    else:
        print_table(_columns(jobs, options.columns), jobs)
    return 0


def _params(options: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"selection": selection(options), "limit": options.limit}
    if options.since is not None:
        from jobd.cli.times import parse_time

        params["since"] = parse_time(options.since)
    return params


def _columns(jobs: list[dict[str, Any]], wanted: str | None) -> list[str]:
    if wanted is None:
        return _COLUMNS
    names = wanted.split(",")
    for name in names:
        if jobs and name not in jobs[0]:
            raise unknown_name("column", name, jobs[0])
    return names


def _sort(jobs: list[dict[str, Any]], field: str | None) -> None:
    if field is None or not jobs:
        return
    if field not in jobs[0]:
        raise unknown_name("field", field, jobs[0])
    jobs.sort(key=lambda job: _key(job[field]))


def _key(value: Any) -> tuple[int, float, str]:
    """Numbers by size, everything else by how it is shown, what is not known last."""
    if value is None:
        return (2, 0.0, "")
    if isinstance(value, int | float):
        return (0, float(value), "")
    return (1, 0.0, cell(value))
