"""Bad places and short resources: a clear error, nothing lost, and all is well again when there is room."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import MakeDaemon
from tests.helpers.daemon import Daemon, environment
from tests.helpers.needs import needs_root
from tests.helpers.waiting import eventually

MEGABYTE = 1 << 20


@pytest.fixture
def small_disk(state_dir: Path) -> Iterator[Path]:
    """A file system of 24 MiB, as the state folder."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=0700", "jobd-test", state_dir], check=True)
    yield state_dir
    subprocess.run(["umount", "--lazy", state_dir], check=True)


def fill(folder: Path) -> Path:
    """Take all the room there is."""
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file:
        for size in (65536, 1):
            try:
                while file.write(b"x" * size):
                    continue
            except OSError:
                continue
    return filler


@needs_root
@pytest.mark.slow
def test_a_full_disk(small_disk: Path, make_daemon: MakeDaemon, tmp_path: Path) -> None:
    """Everything of jobd's is on it: the database, the keeper's journal, and what jobs write."""
    daemon = make_daemon(config="[storage]\nmin_free = 0\n[scheduler]\nslots = 4\n")
    daemon.start()
    script = f"while [ ! -e {tmp_path}/$0 ]; do sleep 0.05; done; exit $0"
    ids = {code: daemon.submit("--", "sh", "-c", script, str(code)) for code in (3, 4)}
    for id in ids.values():
        assert daemon.jobd("wait", "--for", "started", id).returncode == 0
    filler = fill(small_disk)
    refused = daemon.jobd("submit", "--", "true")
    if refused.returncode == 0:
        refused = _until_refused(daemon)
    assert refused.returncode == 69
    assert b"jobd.db" in refused.stderr
    assert b"free some space" in refused.stderr
    (tmp_path / "3").touch()
    eventually(lambda: len(daemon.jobs()) <= 2, "a job has ended on the full disk")
    assert daemon.jobd("status").returncode == 0
    filler.unlink()
    assert daemon.jobd("wait", "--timeout", "20", ids[3]).returncode == 3
    (tmp_path / "4").touch()
    assert daemon.jobd("wait", "--timeout", "20", ids[4]).returncode == 4
    assert daemon.jobd("run", "--", "echo", "fine", timeout=60).stdout == b"fine\n"


def _until_refused(daemon: Daemon) -> subprocess.CompletedProcess[bytes]:
    """What SQLite has set aside takes a few more jobs."""
    done = daemon.jobd("submit", "--hold", "--", "true", "x" * 100_000)
    for _ in range(100):
        if done.returncode:
            break
        done = daemon.jobd("submit", "--hold", "--", "true", "x" * 100_000)
    return done


@needs_root
def test_below_the_floor_nothing_new_is_taken_or_started(small_disk: Path, make_daemon: MakeDaemon) -> None:
    """The floor is the smaller of 256 MiB and 5 % of the volume: of this one, 1.2 MiB."""
    daemon = make_daemon(config="[scheduler]\nslots = 1\n")
    daemon.start()
    running = daemon.submit("--", "sleep", "300")
    waiting = daemon.submit("--", "sh", "-c", "exit 6")
    assert daemon.jobd("wait", "--for", "started", running).returncode == 0
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * (os.statvfs(small_disk).f_bavail * 4096 - MEGABYTE))
    eventually(lambda: daemon.jobd("submit", "--", "true").returncode == 69, "no new work is taken")
    assert b"must stay free" in daemon.jobd("submit", "--", "true").stderr
    assert daemon.jobd("terminate", running).returncode == 0
    eventually(lambda: b"must stay free" in daemon.jobd("explain", waiting).stdout, "none is started, and it says why")
    assert daemon.info(waiting)["state"] == "QUEUED"
    filler.unlink()
    assert daemon.jobd("wait", "--timeout", "45", waiting, timeout=60).returncode == 6


def test_a_job_that_fills_its_disk_hurts_only_itself(daemon: Daemon) -> None:
    done = daemon.jobd("run", "--", "sh", "-c", "echo x > /dev/full")
    assert done.returncode != 0
    assert daemon.jobd("run", "--", "true").returncode == 0


def test_a_state_folder_that_can_t_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for words in (["serve"], ["submit", "--", "true"]):
        state = tmp_path / "file" / "state"
        environ = environment(state, {"JOBD_NO_AUTOSTART": "0"})
        command = [sys.executable, "-m", "jobd", *words]
        done = subprocess.run(command, env=environ, capture_output=True, timeout=30, check=False)
        assert done.returncode in (5, 69)
        assert os.fsencode(state) in done.stderr
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["serve"], ["submit", "--", "true"]], ids=["serve", "autostart"])
def test_a_damaged_database_is_refused_by_name_and_left_as_it_is(state_dir: Path, words: list[str]) -> None:
    database = state_dir / "jobd.db"
    database.write_bytes(b"this is no database at all, though it is long enough" * 100)
    before = database.read_bytes()
    environ = environment(state_dir, {"JOBD_NO_AUTOSTART": "0"})
    command = [sys.executable, "-m", "jobd", *words]
    done = subprocess.run(command, env=environ, capture_output=True, timeout=30, check=False)
    assert done.returncode == 69
    assert os.fsencode(database) in done.stderr
    assert b"damaged" in done.stderr
    assert b"Traceback" not in done.stderr
    assert database.read_bytes() == before


def test_a_socket_that_can_t_be_made(state_dir: Path) -> None:
    command = [sys.executable, "-m", "jobd", "serve", "--socket", "/proc/nowhere/jobd.sock"]
    done = subprocess.run(command, env=environment(state_dir), capture_output=True, timeout=30, check=False)
    assert done.returncode in (5, 69)
    assert b"/proc/nowhere" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_state_folder_that_others_can_write(state_dir: Path) -> None:
    state_dir.chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-m", "jobd", "serve"],
        env=environment(state_dir),
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 5
    assert b"chmod go-w" in done.stderr


def test_a_socket_that_vanished_is_bound_again(daemon: Daemon) -> None:
    for _ in range(2):
        daemon.socket.unlink()
        eventually(daemon.socket.is_socket, "it is there again")
        assert daemon.jobd("status").returncode == 0


def test_a_stale_socket_does_not_stop_a_daemon(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    daemon.start()
    daemon.kill9()
    assert daemon.socket.is_socket()
    assert daemon.jobd("status").returncode == 69
    daemon.start()
    assert daemon.jobd("status").returncode == 0


@pytest.mark.slow
def test_running_out_of_descriptors(make_daemon: MakeDaemon) -> None:
    """More clients than descriptors: the rest waits, nobody spins, and all is served when there are some again."""
    daemon = make_daemon()
    daemon.start()
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (64, 64))
    channels = []
    for _ in range(100):
        channel = socket.socket(socket.AF_UNIX)
        channel.connect(str(daemon.socket))
        channels.append(channel)
    eventually(lambda: "can't accept clients" in daemon.logged(), "it has run out")
    before = _cpu(daemon.pid)
    eventually(lambda: daemon.logged().count("can't accept clients") > 3, "it has tried again")
    assert _cpu(daemon.pid) - before < 0.5
    for channel in channels:
        channel.close()
    assert daemon.jobd("run", "--", "echo", "fine").stdout == b"fine\n"


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_stopped_keeper_holds_up_its_own_jobs_only(daemon: Daemon) -> None:
    id = daemon.submit("--", "sleep", "300")
    assert daemon.jobd("wait", "--for", "started", id).returncode == 0
    (keeper,) = daemon.keepers()
    os.kill(keeper, signal.SIGSTOP)
    try:
        daemon.kill9()
        daemon.start()
        assert daemon.jobd("run", "--", "echo", "fine", timeout=20).stdout == b"fine\n"
        assert daemon.info(id)["state"] == "RUNNING"
        assert b"does not answer" in daemon.jobd("explain", id).stdout
    finally:
        os.kill(keeper, signal.SIGCONT)
    eventually(lambda: b"does not answer" not in daemon.jobd("explain", id).stdout, "it answers again")
    assert daemon.jobd("terminate", id).returncode == 0
    assert daemon.info(id)["sub_state"] == "terminated"
