"""Ending a job ends every process that it started, and nothing else (promise 11)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

from tests.helpers.daemon import Daemon
from tests.helpers.processes import look
from tests.helpers.waiting import eventually

TREE = "setsid sleep 300 & (sleep 300 &) ; sleep 300"


def started(daemon: Daemon, *words: str) -> str:
    """A job whose shell says that it is up."""
    id = daemon.submit("--", "sh", "-c", f"echo up; {words[0]}")
    eventually(lambda: daemon.jobd("logs", id).stdout.startswith(b"up"), "it is up")
    return id


def zombies(daemon: Daemon) -> list[int]:
    """Zombies below the daemon and its keepers."""
    return [process.pid for process in daemon.processes() if not process.argv]


def test_the_whole_tree_ends(daemon: Daemon) -> None:
    id = started(daemon, TREE)
    eventually(lambda: len(daemon.jobs()) == 4, "four processes")
    assert daemon.jobd("terminate", id).returncode == 0
    assert daemon.jobs() == []
    assert zombies(daemon) == []


def test_a_child_that_ignores_term_is_killed(daemon: Daemon) -> None:
    child = "(trap '' TERM; echo child; while :; do sleep 0.05; done)"
    id = started(daemon, f"trap 'exit 0' TERM; {child} & while :; do sleep 0.05; done")
    eventually(lambda: b"child" in daemon.jobd("logs", id).stdout, "the child is up")
    began = time.monotonic()
    assert daemon.jobd("terminate", "--grace", "1", id).returncode == 0
    assert time.monotonic() - began >= 1
    assert daemon.jobs() == []


def test_a_stopped_job_is_ended(daemon: Daemon) -> None:
    id = started(daemon, "sleep 300")
    assert daemon.jobd("suspend", id).returncode == 0
    assert daemon.jobd("terminate", id).returncode == 0
    assert daemon.jobs() == []


def test_what_an_ended_job_left_is_ended_too(daemon: Daemon) -> None:
    id = daemon.submit("--", "sh", "-c", "setsid sleep 300 & exit 0")
    assert daemon.jobd("wait", id).returncode == 0
    assert daemon.jobd("reap", id).returncode == 0
    assert daemon.jobs() == []


def test_leave_children_keeps_it(daemon: Daemon) -> None:
    id = daemon.submit("--leave-children", "--", "sh", "-c", "sleep 300 & exit 0")
    assert daemon.jobd("wait", id).returncode == 0
    assert len(daemon.jobs()) == 1


def test_a_program_that_ignores_sigtstp_is_stopped(daemon: Daemon) -> None:
    id = started(daemon, "trap '' TSTP; while :; do sleep 0.05; done")
    assert daemon.jobd("suspend", id).returncode == 0
    job = daemon.info(id)
    assert job["state"] == "SUSPENDED"
    assert state_letter(int(job["native_id"])) == "T"
    assert daemon.jobd("resume", id).returncode == 0
    assert daemon.info(id)["state"] == "RUNNING"


def test_somebody_else_s_stop_shows(daemon: Daemon) -> None:
    id = started(daemon, "sleep 300")
    leader = int(daemon.info(id)["native_id"])
    os.kill(leader, signal.SIGSTOP)
    assert daemon.jobd("wait", "--for", "SUSPENDED", "--timeout", "10", id).returncode == 0
    os.kill(leader, signal.SIGCONT)
    assert daemon.jobd("wait", "--for", "RUNNING", "--timeout", "10", id).returncode == 0


def test_a_signal_to_the_leader_or_to_all(daemon: Daemon) -> None:
    script = (
        "trap 'echo leader' USR1; (trap 'echo child' USR1; while :; do sleep 0.05; done) & while :; do sleep 0.05; done"
    )
    id = started(daemon, script)
    eventually(lambda: len(daemon.jobs()) >= 2, "both are up")
    assert daemon.jobd("signal", "usr1", "--leader", id).returncode == 0
    eventually(lambda: b"leader" in daemon.jobd("logs", id).stdout, "the leader got it")
    assert b"child" not in daemon.jobd("logs", id).stdout
    assert daemon.jobd("signal", "-USR1", id).returncode == 0
    eventually(lambda: b"child" in daemon.jobd("logs", id).stdout, "the child got it")


def test_a_pid_that_is_another_s_by_now_is_never_signalled(daemon: Daemon) -> None:
    """A journal that names a living process of somebody else's, with another start tick."""
    victim = subprocess.Popen(["sleep", "300"])
    try:
        id = started(daemon, "sleep 300")
        token = next(e for p in daemon.jobs() for e in p.environ if e.startswith(b"JOBD_TOKEN=")).removeprefix(
            b"JOBD_TOKEN="
        )
        (keeper,) = daemon.keepers()
        (folder,) = (daemon.state_dir / "keepers").iterdir()
        daemon.kill9()
        os.kill(keeper, signal.SIGKILL)
        for process in daemon.jobs():
            os.kill(process.pid, signal.SIGKILL)
        eventually(lambda: not daemon.jobs(), "the job is gone")
        journal = folder / "journal"
        lines = [
            line.replace(b'"pid":%d' % int(daemon_pid(journal)), b'"pid":%d' % victim.pid)
            for line in journal.read_bytes().splitlines(keepends=True)
        ]
        journal.write_bytes(b"".join(lines))
        assert token in journal.read_bytes()
        daemon.start()
        job = daemon.info(id)
        assert (job["state"], job["sub_state"]) == ("FAILED", "exit-status-unknown")
        assert look(victim.pid) is not None
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


def daemon_pid(journal: Path) -> int:
    """The pid of the only job in a journal."""
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    return next(int(record["pid"]) for record in records if record["k"] == "started")


def state_letter(pid: int) -> str:
    """The state of a process as ps(1) shows it."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def hangs(daemon: Daemon, id: str) -> bool:
    """Whether a job has not come to its exec."""
    return bool(daemon.info(id)["sub_state"] == "starting")


def test_a_fifo_that_nobody_opens_stops_only_its_job(daemon: Daemon, tmp_path: Path) -> None:
    for name in ("in", "out"):
        os.mkfifo(tmp_path / name)
    stuck = [
        daemon.submit("-i", str(tmp_path / "in"), "--", "cat"),
        daemon.submit("-o", str(tmp_path / "out"), "--", "true"),
    ]
    for id in stuck:
        eventually(partial(hangs, daemon, id), "it hangs before its exec")
    assert daemon.jobd("terminate", stuck[0]).returncode == 0
    assert daemon.jobd("run", "--", "echo", "fine").stdout == b"fine\n"
    assert daemon.jobd("terminate", stuck[1]).returncode == 0
    assert daemon.info(stuck[1])["state"] == "FAILED"
