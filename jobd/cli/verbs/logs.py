"""``jobd logs``."""

from __future__ import annotations

import os
import sys

from jobd.cli.connection import LONG_PATIENCE, PATIENCE, Connection, Daemon
from jobd.cli.options import Parser
from jobd.model.errors import from_wire
from jobd.model.text import unwrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main(words: list[str]) -> int:
    """A job's output, as it is."""
    parser = Parser("logs", "The output of a job.")
    parser.add_argument("id", metavar="ID")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the job ends")
    parser.add_argument("--stdout", action="store_true", help="only this stream")
    parser.add_argument("--stderr", action="store_true", help="only this stream")
    parser.add_argument("-n", "--lines", type=int, metavar="LINES", help="only the last lines")
    parser.add_argument("--attempt", type=int, metavar="N", help="of an earlier attempt")
    options = parser.parse_intermixed_args(words)
    streams = [name for name in ("stdout", "stderr") if getattr(options, name)] or ["stdout", "stderr"]
    params: dict[str, Any] = {
        "job": options.id,
        "streams": streams,
        "follow": options.follow,
        "lines": options.lines,
        "attempt": options.attempt,
        "offsets": {},
    }
    _follow(Daemon(options), params)
    return 0


def _follow(daemon: Daemon, params: dict[str, Any]) -> None:
    """Through any restart of the daemon: each time on from the offsets that were reached."""

    def read(connection: Connection) -> None:
        number = connection.send("logs", params)
        connection.result_of(number)
        for message in connection.stream(number):
            if message["method"] == "output_end":
                _check(message["params"])
                return
            _pass_on(message["params"], params["offsets"])

    daemon.through_restarts(read, LONG_PATIENCE if params["follow"] else PATIENCE)


def _check(params: dict[str, Any]) -> None:
    if params.get("error"):
        raise from_wire(params["error"])


def _pass_on(params: dict[str, Any], offsets: dict[str, int]) -> None:
    data = unwrap(params["data"])
    offsets[params["stream"]] = params["offset"] + len(data)
    target = sys.stderr if params["stream"] == "stderr" else sys.stdout
    target.flush()
    view = memoryview(data)
    while view:
        view = view[os.write(target.fileno(), view) :]
