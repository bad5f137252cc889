"""What jobd weighs: commands beside a bare interpreter, memory, restarts, and CPU while nothing happens."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

from bench import QUIET, Connection, Daemon, cpu, daemon, memory, spread

SLEEPER = {"remote_command": "/bin/sleep", "args": ["1000"], "working_directory": "/", **QUIET}
NOTHING = {"remote_command": "/bin/true", "working_directory": "/", **QUIET}
IDLE_SECONDS = 60


def main() -> None:
    """All of it, one after the other."""
    with daemon() as made:
        _commands(made)
        print(f"memory at rest: daemon {memory(made.pid):.1f} MiB, keeper {memory(made.keeper()):.1f} MiB")
    with daemon(slots=1000) as made:
        _running(made)
    with daemon(slots=2) as made:
        _finished(made)
    with daemon(slots=100) as made:
        _idle(made)


def _commands(made: Daemon) -> None:
    bare, submit = [], []
    for _ in range(20):
        bare.append(_time(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)))
        submit.append(_time(lambda: made.jobd("submit", "--", "true")))
    print(f"python -c pass: {spread(bare, ' ms')}; jobd submit: {spread(submit, ' ms')}")


def _running(made: Daemon) -> None:
    connection = Connection(made)
    ids = [job["job_id"] for job in connection.call("submit", templates=[SLEEPER] * 1000)["jobs"]]
    connection.call("wait", selection={"ids": [f"{ids[0]}-{ids[-1]}"]}, **{"for": "started"})
    print(f"1,000 running: daemon {memory(made.pid):.1f} MiB, keeper {memory(made.keeper()):.1f} MiB")
    made.stop()
    print(f"restart with 1,000 running: {_time(made.start) / 1000:.2f} s")


def _finished(made: Daemon) -> None:
    connection = Connection(made)
    for _ in range(20):
        connection.run_all([NOTHING] * 5000)
    made.stop()
    print(f"restart with 100,000 finished: {_time(made.start) / 1000:.2f} s")
    print(f"jobd list then: {_time(lambda: made.jobd('list')):.0f} ms")


def _idle(made: Daemon) -> None:
    connection = Connection(made)
    ids = [job["job_id"] for job in connection.call("submit", templates=[SLEEPER] * 100)["jobs"]]
    waiters = [Connection(made) for _ in ids]
    for waiter, id in zip(waiters, ids, strict=True):
        waiter.send("wait", selection={"ids": [id]})
    time.sleep(2)
    pids = made.pid, made.keeper()
    before = [cpu(pid) for pid in pids]
    time.sleep(IDLE_SECONDS)
    used = [cpu(pid) - first for pid, first in zip(pids, before, strict=True)]
    print(f"CPU in {IDLE_SECONDS} s with 100 sleepers and 100 waiters: daemon {used[0]:.2f} s, keeper {used[1]:.2f} s")


def _time(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main()
