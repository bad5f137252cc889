"""``jobd shutdown``."""

from __future__ import annotations

import os
import select

from jobd.cli.connection import Daemon, Lost
from jobd.cli.options import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobd.cli.connection import Connection


def main(words: list[str]) -> int:
    """Stop the daemon; returns when it is gone. Never starts one."""
    parser = Parser("shutdown", "Stop the daemon; jobs run on.")
    parser.add_argument("--terminate-jobs", action="store_true", help="end all jobs first")
    options = parser.parse_args(words)
    connection = Daemon(options, autostart=False).connect()
    # Taken before it is told: the pid may be another's by the time it has stopped. It says so itself, since the peer
    # of a socket that systemd listens on is systemd (SO_PEERCRED, unix(7)).
    daemon = os.pidfd_open(connection.result_of(connection.send("status", {}))["pid"])
    try:
        connection.result_of(connection.send("shutdown", {"terminate_jobs": options.terminate_jobs}))
        _until_closed(connection)
    except Lost:
        select.select([daemon], [], [])
    finally:
        os.close(daemon)
        connection.close()
    return 0


def _until_closed(connection: Connection) -> None:
    """The daemon hangs up when it stops, which ends this by ``Lost``."""
    while True:
        connection.receive()
