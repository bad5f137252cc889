"""What the benchmarks share: a daemon of their own, a bare connection, and ways to measure."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")
QUIET = {"output_path": "/dev/null", "error_path": "/dev/null"}


class Daemon:
    """A daemon in a folder that was never used: deleted files make ext4 slow for a while."""

    def __init__(self, folder: Path, slots: int) -> None:
        self.state = folder / "state"
        self._config = folder / "jobd.toml"
        self._config.write_text(f'[scheduler]\nslots = {slots}\n[daemon]\nlog_level = "warning"\n')
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait for READY."""
        notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notified.bind("")
        address = notified.getsockname().decode().replace("\0", "@")
        environ = {**os.environ, "JOBD_CONFIG": str(self._config), "NOTIFY_SOCKET": address}
        command = [sys.executable, "-m", "jobd", "serve", "--state-dir", str(self.state)]
        self.process = subprocess.Popen(command, env=environ)
        with notified:
            while b"READY=1" not in notified.recv(4096):
                continue

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop it; jobs run on."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait()

    @property
    def pid(self) -> int:
        """Its pid."""
        assert self.process is not None
        return self.process.pid

    def keeper(self) -> int:
        """The pid of its keeper."""
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if any(word.startswith(os.fsencode(self.state / "keepers")) for word in words):
                    return int(name)
        raise LookupError("there is no keeper")

    def jobd(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """A command."""
        environ = {**os.environ, "JOBD_STATE_DIR": str(self.state), "JOBD_NO_AUTOSTART": "1"}
        return subprocess.run([sys.executable, "-m", "jobd", *words], env=environ, capture_output=True, check=True)


@contextmanager
def daemon(slots: int = 2) -> Iterator[Daemon]:
    """A daemon that is ready; everything of it is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="jobd-bench-"))
    made = Daemon(folder, slots)
    try:
        made.start()
        yield made
        made.jobd("shutdown", "--terminate-jobs")
    finally:
        if made.process is not None and made.process.poll() is None:
            made.process.kill()
        shutil.rmtree(folder)


class Connection:
    """A bare connection."""

    def __init__(self, made: Daemon) -> None:
        self._channel = socket.socket(socket.AF_UNIX)
        self._channel.connect(str(made.state / "run" / "jobd.sock"))
        self._lines = self._channel.makefile("rb")
        self._number = 0
        self.call("hello", protocol=[1, 1], program="bench")

    def send(self, method: str, **params: Any) -> int:
        """Send a request."""
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._channel.sendall(json.dumps(message).encode() + b"\n")
        return self._number

    def result(self) -> Any:
        """The next answer."""
        message = json.loads(next(self._lines))
        assert "error" not in message, message
        return message["result"]

    def call(self, method: str, **params: Any) -> Any:
        """A request and its result."""
        self.send(method, **params)
        return self.result()

    def run_all(self, templates: list[dict[str, Any]]) -> list[str]:
        """Submit templates together and wait for all of them; the ids."""
        ids = [job["job_id"] for job in self.call("submit", templates=templates)["jobs"]]
        self.call("wait", selection={"ids": [f"{ids[0]}-{ids[-1]}"]})
        return ids


def cpu(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(pid: int) -> float:
    """MiB of resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise LookupError(pid)


def spread(values: list[float], unit: str = "") -> str:
    """Median, and between which values."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.3g}{unit} ({low:.3g} to {high:.3g})"
