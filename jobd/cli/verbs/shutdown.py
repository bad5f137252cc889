"""``jobd shutdown``."""

from __future__ import annotations

from jobd.cli.connection import Connection, Daemon, Lost
from jobd.cli.options import Parser


def main(words: list[str]) -> int:
    """Stop the daemon; returns when it is gone. Never starts one."""
    parser = Parser("shutdown", "Stop the daemon; jobs run on.")
    parser.add_argument("--terminate-jobs", action="store_true", help="end all jobs first")
    options = parser.parse_args(words)
    daemon = Daemon(options, autostart=False)
    connection = daemon.connect()
    try:
        number = connection.send("shutdown", {"terminate_jobs": options.terminate_jobs})
        connection.result_of(number)
        _until_gone(connection)
    except Lost:
        return 0
    finally:
        connection.close()
    return 0


def _until_gone(connection: Connection) -> None:
    """The daemon hangs up when it is gone, which ends this by ``Lost``."""
    while True:
        connection.receive()
