"""A real daemon for a test: a process that can be killed and started again, and is cleared away."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from jobd import paths
from jobd.protocol.messages import hello_params
from tests.helpers import processes
from tests.helpers.needs import User
from tests.helpers.processes import Process

PATIENCE = 20.0


def environment(state_dir: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment, with no jobd settings but a state folder's. Nothing is autostarted."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("JOBD_")}
    settings = {
        "JOBD_STATE_DIR": str(state_dir),
        "JOBD_NO_AUTOSTART": "1",
        "JOBD_CONFIG": f"{state_dir}/jobd.toml",
    }
    return {**mine, **settings, **(extra or {})}


class Daemon:
    """``jobd serve`` for one state folder.

    Args:
        state_dir: its state folder.
        config: the text of its configuration file.
        environ: what its environment has in addition.
        user: who it runs as; needs root.
    """

    def __init__(
        self,
        state_dir: Path,
        config: str = "",
        environ: Mapping[str, str] | None = None,
        user: User | None = None,
    ) -> None:
        self.state_dir = state_dir
        self.socket = state_dir / "run" / "jobd.sock"
        self.log = state_dir.with_name(state_dir.name + ".log")
        self.store_id: str | None = None
        self._environ = dict(environ or {})
        self._user = user
        # Somebody else may not be let into the caller's folder.
        self._cwd = None if user is None else Path("/")
        self._process: subprocess.Popen[bytes] | None = None
        self._commands: list[subprocess.Popen[bytes]] = []
        if user is not None:
            os.chown(state_dir, user.uid, user.gid)
        self.configure(config)

    def configure(self, config: str) -> None:
        """Write the configuration file; a running daemon reads it at SIGHUP."""
        (self.state_dir / "jobd.toml").write_text(config)

    @property
    def pid(self) -> int:
        """The pid of the daemon that runs."""
        assert self._process is not None, "the daemon does not run"
        return self._process.pid

    def start(self, environ: Mapping[str, str] | None = None, *, ready: bool = True) -> None:
        """Start the daemon and wait until it says READY; without ``ready`` return at once."""
        assert self._process is None, "the daemon runs already"
        if not ready:
            self._launch(environ or {})
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
            notified.bind("")  # the kernel gives it a name (unix(7), autobind)
            address = notified.getsockname().decode().replace("\0", "@")
            self._launch({"NOTIFY_SOCKET": address, **(environ or {})})
            self._await_ready(notified)
        self.store_id = self.request("status")["hello"]["store"]

    def _launch(self, environ: Mapping[str, str]) -> None:
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jobd", "serve", "--state-dir", str(self.state_dir)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(self.state_dir, {**self._environ, **environ}),
                start_new_session=True,
                **_as_user(self._user),
            )

    def _await_ready(self, notified: socket.socket) -> None:
        ended = os.pidfd_open(self.pid)
        try:
            while True:
                seen, _, _ = select.select([notified.fileno(), ended], [], [], PATIENCE)
                assert notified.fileno() in seen, f"the daemon did not get ready:\n{self.logged()}"
                if b"READY=1" in notified.recv(4096).split(b"\n"):
                    return
        finally:
            os.close(ended)

    def logged(self) -> str:
        """What it has logged so far, in all its lives."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def kill9(self) -> None:
        """Kill it, as a crash would; its keeper and jobs run on."""
        self.end(signal.SIGKILL)

    def stop(self) -> int:
        """Stop it politely; its jobs run on. The exit status."""
        return self.end(signal.SIGTERM)

    def end(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end."""
        os.kill(self.pid, number)
        return self.wait()

    def wait(self) -> int:
        """Wait for an end that comes by itself, at a crash point or by ``jobd shutdown``; the exit status."""
        assert self._process is not None, "the daemon does not run"
        status = self._process.wait(PATIENCE)
        self._process = None
        return status

    def restart(self, environ: Mapping[str, str] | None = None) -> None:
        """Stop it politely and start it again."""
        self.stop()
        self.start(environ)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal: SIGSTOP, SIGCONT, SIGHUP."""
        os.kill(self.pid, number)

    def memory(self, pid: int | None = None) -> int:
        """Bytes that the daemon, or another process, holds for itself (proportional set size)."""
        rollup = Path(f"/proc/{pid or self.pid}/smaps_rollup").read_text()
        found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024

    def keepers(self) -> list[int]:
        """The pids of its keepers."""
        return processes.keepers_of(self.state_dir)

    def processes(self) -> list[Process]:
        """All that runs for its state folder: itself, keepers, jobs and what they started."""
        return processes.of_state(self.state_dir, self._token_prefix())

    def jobs(self) -> list[Process]:
        """The processes of its jobs."""
        prefix = f"JOBD_TOKEN={self._token_prefix()}".encode()
        return [one for one in self.processes() if any(entry.startswith(prefix) for entry in one.environ)]

    def _token_prefix(self) -> str | None:
        return None if self.store_id is None else f"{self.store_id}-"

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The result of one request on a connection of its own, and what ``hello`` said as ``hello``."""
        with socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(PATIENCE)
            with paths.socket_address(self.socket) as address:
                channel.connect(address)
            for number, (name, values) in enumerate([("hello", hello_params("tests")), (method, params or {})]):
                message = {"jsonrpc": "2.0", "id": number, "method": name, "params": values}
                channel.sendall(msgspec.json.encode(message) + b"\n")
            with channel.makefile("rb") as lines:
                answers = {answer["id"]: answer for answer in map(msgspec.json.decode, (next(lines), next(lines)))}
        assert "result" in answers[1], answers[1]
        return {**answers[1]["result"], "hello": answers[0]["result"]}

    def jobd(
        self,
        *words: str | bytes | os.PathLike[str],
        input: bytes | None = None,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 30,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run ``jobd WORDS...`` to its end."""
        return subprocess.run(
            [sys.executable, "-m", "jobd", *words],
            input=b"" if input is None else input,
            capture_output=True,
            env=environment(self.state_dir, environ),
            cwd=cwd or self._cwd,
            timeout=timeout,
            check=False,
            **_as_user(self._user),
        )

    def popen(
        self, *words: str | bytes | os.PathLike[str], environ: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start ``jobd WORDS...``; what still runs at the end is ended. ``options`` are subprocess.Popen's."""
        streams = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "cwd": self._cwd,
            **options,
        }
        command = [sys.executable, "-m", "jobd", *words]
        environ = environment(self.state_dir, environ)
        started = subprocess.Popen(command, env=environ, **{**streams, **_as_user(self._user)})
        self._commands.append(started)
        return started

    def submit(self, *words: str | bytes | os.PathLike[str]) -> str:
        """``jobd submit WORDS...``; the id."""
        done = self.jobd("submit", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    def info(self, id: str) -> dict[str, Any]:
        """What ``jobd show --json`` says of a job."""
        done = self.jobd("show", "--json", id)
        assert done.returncode == 0, done.stderr
        job: dict[str, Any] = msgspec.json.decode(done.stdout)["jobs"][0]
        return job

    def clear(self) -> None:
        """End everything that runs for the state folder; print the log, which pytest shows on a failure."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)
            self._process = None
        for command in self._commands:
            _end(command)
        processes.end_all(self.state_dir, self._token_prefix())
        print(self.logged())
        self.log.unlink(missing_ok=True)


def _end(command: subprocess.Popen[bytes]) -> None:
    """Of a test that failed: else its pipes would fail the next one, too."""
    command.kill()
    command.wait(PATIENCE)
    for pipe in (command.stdin, command.stdout, command.stderr):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def _as_user(user: User | None) -> dict[str, Any]:
    return {} if user is None else {"user": user.uid, "group": user.gid, "extra_groups": []}
