"""``jobd run`` as a user meets it: streams, exit codes, standard input, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.daemon import Daemon
from tests.helpers.waiting import eventually


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
        ("kill -HUP $$", 129),
    ],
)
def test_exits_as_the_job_did(daemon: Daemon, script: str, code: int) -> None:
    assert daemon.jobd("run", "--", "sh", "-c", script).returncode == code


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--", "no-such-command"], 127, "ENOENT"),
        (["--", "/etc/passwd"], 126, "EACCES"),
        (["-C", "/no/where", "--", "true"], 125, "working directory"),
        (["-i", "/no/where", "--", "true"], 125, "input"),
        (["-o", "/no/where", "--", "true"], 125, "output file"),
    ],
)
def test_what_can_t_be_started(daemon: Daemon, words: list[str], code: int, told: str) -> None:
    done = daemon.jobd("run", *words)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")
    assert told in daemon.jobd("explain", "last").stdout.decode()
    job = daemon.info("1")
    assert (job["state"], job["sub_state"], job["exit_status"]) == ("FAILED", "start-failed", None)
    assert daemon.jobd("wait", "--for", "started", "1").returncode == 4


def test_piped_input_is_taken_only_when_asked_for(daemon: Daemon) -> None:
    assert daemon.jobd("run", "-i", "-", "--", "sort", input=b"b\na\n").stdout == b"a\nb\n"
    assert daemon.jobd("run", "--", "cat", input=b"not eaten").stdout == b""


def test_a_loop_around_run_keeps_its_input(daemon: Daemon) -> None:
    loop = f"while read word; do {sys.executable} -m jobd run -- echo got $word; done"
    environ = {**os.environ, "JOBD_STATE_DIR": str(daemon.state_dir)}
    done = subprocess.run(
        ["sh", "-c", loop], input=b"1\n2\n3\n", capture_output=True, env=environ, check=True, timeout=30
    )
    assert done.stdout == b"got 1\ngot 2\ngot 3\n"


def test_every_byte_passes(daemon: Daemon) -> None:
    script = "import os; os.write(1, bytes(range(256)) * 1000); os.write(2, b'\\xff\\n\\0')"
    done = daemon.jobd("run", "--", "/usr/bin/python3", "-c", script)
    assert done.stdout == bytes(range(256)) * 1000
    assert done.stderr == b"\xff\n\0"


def running_shell(daemon: Daemon, script: str) -> subprocess.Popen[bytes]:
    """A ``jobd run`` whose shell says that it is up."""
    running = daemon.popen("run", "--", "sh", "-c", script)
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    return running


def test_ctrl_c_ends_the_job(daemon: Daemon) -> None:
    running = running_shell(daemon, "echo up; sleep 300")
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=30)
    assert running.returncode == 143
    assert daemon.jobs() == []


def test_a_second_ctrl_c_detaches(daemon: Daemon) -> None:
    running = running_shell(daemon, "trap '' TERM; echo up; while :; do sleep 0.1; done")
    running.send_signal(signal.SIGINT)
    eventually(lambda: b"is being ended" in daemon.jobd("explain", "last").stdout, "the job is being ended")
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=30)
    assert running.returncode == 130
    assert daemon.jobs()


def test_a_hangup_detaches(daemon: Daemon) -> None:
    running = running_shell(daemon, "echo up; sleep 300")
    running.send_signal(signal.SIGHUP)
    running.communicate(timeout=30)
    assert running.returncode == 130
    assert daemon.info("1")["state"] == "RUNNING"


def test_a_closed_stdout_ends_the_job(daemon: Daemon) -> None:
    running = daemon.popen("run", "--", "yes")
    assert running.stdout is not None
    assert running.stdout.read(2) == b"y\n"
    running.stdout.close()
    assert running.wait(30) == 143
    assert running.stderr is not None
    running.stderr.close()


def test_terminated_that_exits_0_is_not_0(daemon: Daemon) -> None:
    running = running_shell(daemon, "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done")
    assert daemon.jobd("terminate", "last").returncode == 0
    running.communicate(timeout=30)
    assert running.returncode == 143
    job = daemon.info("1")
    assert (job["state"], job["sub_state"], job["exit_status"]) == ("FAILED", "terminated", 0)


def test_a_time_limit_is_124(daemon: Daemon) -> None:
    assert daemon.jobd("run", "--time-limit", "0.2", "--", "sleep", "300").returncode == 124
    assert daemon.info("1")["sub_state"] == "time-limit"


def test_a_time_limit_holds_without_a_daemon(daemon: Daemon) -> None:
    id = daemon.submit("--time-limit", "0.5", "--", "sleep", "300")
    assert daemon.jobd("wait", "--for", "started", id).returncode == 0
    daemon.kill9()
    eventually(lambda: not daemon.jobs(), "the keeper has ended it")
    daemon.start()
    assert daemon.jobd("wait", id).returncode == 124


def test_terminated_while_held_never_ran(daemon: Daemon) -> None:
    id = daemon.submit("--hold", "--", "true")
    assert daemon.info(id)["state"] == "QUEUED_HELD"
    assert daemon.jobd("terminate", id).returncode == 0
    assert daemon.jobd("wait", id).returncode == 125
    assert daemon.jobd("wait", "--for", "started", id).returncode == 4


def test_a_submission_in_a_substitution_returns_at_once(daemon: Daemon) -> None:
    assert daemon.jobd("submit", "--", "sleep", "300", timeout=10).stdout == b"1\n"


def test_output_that_comes_after_the_leader_s_end_is_whole(daemon: Daemon, tmp_path: Path) -> None:
    done = daemon.jobd("run", "--", "bash", "-c", f"exec > >(tee {tmp_path}/log); seq 1 20000")
    assert done.returncode == 0
    wanted = "".join(f"{number}\n" for number in range(1, 20001)).encode()
    eventually(lambda: (tmp_path / "log").read_bytes() == wanted, "tee has written its log")
    assert daemon.jobd("logs", "last").stdout == wanted


def test_a_background_child_does_not_hold_up_the_end(daemon: Daemon) -> None:
    assert daemon.jobd("run", "--", "sh", "-c", "sleep 300 & echo done", timeout=10).stdout == b"done\n"


def test_several_jobs_append_to_one_file(daemon: Daemon, tmp_path: Path) -> None:
    target = tmp_path / "log"
    target.write_text("before\n")
    ids = [daemon.submit("--append", "-o", str(target), "--", "echo", str(number)) for number in range(5)]
    assert daemon.jobd("wait", *ids).returncode == 0
    assert sorted(target.read_text().split()) == ["0", "1", "2", "3", "4", "before"]
    daemon.jobd("run", "-o", str(target), "--", "echo", "alone")
    assert target.read_text() == "alone\n"


def test_join_and_placeholders(daemon: Daemon, tmp_path: Path) -> None:
    path = "$DRMAA2_WORKING_DIR$/both"
    daemon.jobd("run", "-C", str(tmp_path), "--join", "-o", path, "--", "sh", "-c", "echo a; echo b >&2")
    assert (tmp_path / "both").read_text() == "a\nb\n"
