"""One job at a time: how long until it is taken, and until its end is seen, in multiples of what can't be avoided."""

from __future__ import annotations

import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import QUIET, Connection, daemon

COUNT = 300
ROUNDS = 3
TEMPLATE = {"remote_command": "/bin/true", "working_directory": "/", **QUIET}


def main() -> None:
    """Measure each in turn, three times over."""
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder, daemon() as made:
            commit = _commits(Path(folder) / "bare.db")
            spawn = _median(_spawn)
            connection = Connection(made)
            connection.run_all([TEMPLATE] * 20)
            taken, done = _jobs(connection)
            held = _median(partial(connection.call, "submit", templates=[{**TEMPLATE, "submit_as_hold": True}]))
            print(
                f"commit {commit * 1e6:.0f} µs, spawn {spawn * 1e6:.0f} µs; "
                f"submit answered {taken / commit:.2f} commits (held: {held / commit:.2f}); "
                f"DONE seen {done / (commit + spawn):.2f} times commit + spawn; "
                f"pipelined {_pipelined(connection):.0f} submits/s"
            )


def _jobs(connection: Connection) -> tuple[float, float]:
    taken, done = [], []
    for _ in range(COUNT):
        began = time.perf_counter()
        id = connection.call("submit", templates=[TEMPLATE])["jobs"][0]["job_id"]
        taken.append(time.perf_counter() - began)
        connection.call("wait", selection={"ids": [id]})
        done.append(time.perf_counter() - began)
    return statistics.median(taken), statistics.median(done)


def _pipelined(connection: Connection) -> float:
    count = 2000
    began = time.perf_counter()
    for _ in range(count):
        connection.send("submit", templates=[{**TEMPLATE, "submit_as_hold": True}])
    for _ in range(count):
        connection.result()
    return count / (time.perf_counter() - began)


def _commits(path: Path) -> float:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, text TEXT)")
    result = _median(lambda: connection.execute("INSERT INTO item (text) VALUES ('x')"))
    connection.close()
    return result


def _spawn() -> None:
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)


def _median(work: Callable[[], object]) -> float:
    times = []
    for _ in range(COUNT):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


if __name__ == "__main__":
    main()
