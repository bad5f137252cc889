"""Jobs per second for thousands of /bin/true, two at a time, next to what else runs commands two at a time."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import QUIET, Connection, cpu, daemon, spread

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
ROUNDS = 3


def main() -> None:
    """Measure in turn, so that a machine that drifts drifts for all."""
    with tempfile.TemporaryDirectory() as folder:
        loop = str(Path(folder) / "loop")
        subprocess.run(["cc", "-O2", "-o", loop, str(Path(__file__).parent / "spawn_loop.c")], check=True)
        figures: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            bare = _rate(lambda: subprocess.run([loop, str(COUNT)], check=True))
            figures.setdefault("bare posix_spawn loop, jobs/s", []).append(bare)
            for name, run in _peers().items():
                figures.setdefault(f"{name}, share of the loop", []).append(_rate(run) / bare)
            for name, more in (("jobd", {}), ("jobd, every start by plain fork", {"nice": 0})):
                _jobd(figures, name, bare, more)
    for name, values in figures.items():
        print(f"{name}: {spread(values)}")


def _jobd(figures: dict[str, list[float]], name: str, bare: float, more: dict[str, int]) -> None:
    template = {"remote_command": "/bin/true", "working_directory": "/", **QUIET, **more}
    with daemon() as made:
        connection = Connection(made)
        connection.run_all([template] * 50)
        keeper = made.keeper()
        before = cpu(made.pid), cpu(keeper)
        rate = _rate(lambda: connection.run_all([template] * COUNT))
        after = cpu(made.pid), cpu(keeper)
    figures.setdefault(f"{name}, share of the loop", []).append(rate / bare)
    for part, first, second in zip(("daemon", "keeper"), before, after, strict=True):
        figures.setdefault(f"{name}, CPU of the {part} a job, µs", []).append((second - first) / COUNT * 1e6)


def _peers() -> dict[str, Callable[[], object]]:
    numbers = "\n".join(map(str, range(COUNT))).encode()
    found: dict[str, Callable[[], object]] = {
        "xargs -P2": lambda: subprocess.run(["xargs", "-P2", "-n1", "/bin/true"], input=numbers, check=True)
    }
    if shutil.which("parallel"):
        command = ["parallel", "-j2", "/bin/true"]
        found["GNU parallel -j2"] = lambda: subprocess.run(command, input=numbers, check=True, capture_output=True)
    if shutil.which("tsp"):
        found["task-spooler"] = _task_spooler
    return found


def _task_spooler() -> None:
    subprocess.run(["tsp", "-S", "2"], check=True)
    for _ in range(COUNT):
        subprocess.run(["tsp", "-n", "/bin/true"], check=True, capture_output=True)
    subprocess.run(["tsp", "-w"], check=True)
    subprocess.run(["tsp", "-C"], check=True)


def _rate(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return COUNT / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
