"""Commands that wait live through any restart of the daemon, polite or not, and none of them starts one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import MakeDaemon
from tests.helpers.daemon import Daemon
from tests.helpers.waiting import eventually


def away_and_back(daemon: Daemon, *, polite: bool) -> None:
    """Stop the daemon, so that its socket is gone, or kill it, so that the socket lies there; start it again."""
    if polite:
        daemon.stop()
    else:
        daemon.kill9()
    assert daemon.socket.exists() is not polite
    daemon.start()


def connected(command: subprocess.Popen[bytes]) -> bool:
    """Whether a command waits for its connection's next message: it has a socket and sleeps in recv(2)."""
    folder = Path(f"/proc/{command.pid}")
    try:
        links = [os.readlink(link) for link in (folder / "fd").iterdir()]
    except FileNotFoundError:
        return False  # a file that it had open a moment ago: it is still starting
    return any(link.startswith("socket:") for link in links) and "unix_stream" in (folder / "wchan").read_text()


def gated(daemon: Daemon, folder: Path) -> str:
    """A job that says when it is up, and goes on when the file is there."""
    script = f"echo up; while [ ! -e {folder}/go ]; do sleep 0.05; done; echo on; exit 5"
    id = daemon.submit("--", "sh", "-c", script)
    eventually(lambda: daemon.jobd("logs", id).stdout == b"up\n", "it is up")
    return id


@pytest.mark.parametrize("polite", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize(
    ("words", "code", "output"),
    [(["wait"], 5, b""), (["wait", "--timeout", "60"], 5, b""), (["logs", "-f"], 0, b"up\non\n")],
    ids=["wait", "wait with a timeout", "logs"],
)
def test_goes_on(
    make_daemon: MakeDaemon, tmp_path: Path, words: list[str], code: int, output: bytes, polite: bool
) -> None:
    daemon = make_daemon()
    daemon.start()
    id = gated(daemon, tmp_path)
    command = daemon.popen(*words, id, environ={"JOBD_NO_AUTOSTART": "0"})
    eventually(lambda: connected(command), "it is connected")
    for _ in range(2):
        away_and_back(daemon, polite=polite)
    (tmp_path / "go").touch()
    found, told = command.communicate(timeout=30)
    assert (command.returncode, found) == (code, output)
    assert b"Traceback" not in told
    assert daemon.keepers()


def test_events_follow_without_loss_or_repeat(daemon: Daemon) -> None:
    command = daemon.popen("events", "-f", "--since", "0", "--json")
    assert command.stdout is not None
    seen = []
    for polite in (True, False):
        daemon.jobd("run", "--", "true")
        seen += [command.stdout.readline() for _ in range(3)]
        away_and_back(daemon, polite=polite)
    daemon.jobd("run", "--", "true")
    seen += [command.stdout.readline() for _ in range(3)]
    command.kill()
    command.communicate()
    numbers = [int(line.split(b'"seq": ')[1].split(b",")[0]) for line in seen]
    assert numbers == list(range(1, 10))


def test_a_verb_that_is_cut_is_asked_again(daemon: Daemon) -> None:
    """A restart is invisible to scripts: each of these comes in the middle of one, or of none."""
    commands: list[subprocess.Popen[bytes]] = []
    for _ in range(5):
        commands += [daemon.popen("submit", "--", "true") for _ in range(3)]
        away_and_back(daemon, polite=False)
    outputs = [command.communicate(timeout=30) for command in commands]
    assert [command.returncode for command in commands] == [0] * len(commands), outputs
    assert sorted(int(out) for out, _ in outputs) == list(range(1, len(commands) + 1))
