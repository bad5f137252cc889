"""The daemon or a keeper is killed at the worst moments: nothing is lost, nothing runs twice, nothing is invented."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeDaemon
from tests.helpers.daemon import Daemon
from tests.helpers.waiting import eventually

pytestmark = pytest.mark.crash

ENDED = ("DONE", "FAILED")


def shell(script: str, **template: Any) -> dict[str, Any]:
    """A template for a shell script."""
    return {"remote_command": "/bin/sh", "args": ["-c", script], **template}


def submit(daemon: Daemon, *templates: dict[str, Any]) -> list[str]:
    """Submit templates; the ids."""
    return [job["job_id"] for job in daemon.request("submit", {"templates": list(templates)})["jobs"]]


def jobs(daemon: Daemon) -> dict[str, dict[str, Any]]:
    """All jobs by id."""
    return {job["job_id"]: job for job in daemon.request("list")["jobs"]}


def count(daemon: Daemon, state: str) -> int:
    """How many jobs are in a state."""
    return sum(job["state"] == state for job in jobs(daemon).values())


def assert_truthful(job: dict[str, Any], status: int) -> None:
    """The kernel's answer (a zombie's, or PIDFD_GET_INFO's), or that it is not known: never an invented one."""
    assert job["state"] == "FAILED"
    assert (job["exit_status"], job["sub_state"]) in ((status, None), (None, "exit-status-unknown"))


@contextmanager
def gates(folder: Path, number: int) -> Iterator[list[Path]]:
    """Named pipes that jobs wait at, each for the word that it goes on with."""
    found = [folder / f"gate-{index}" for index in range(number)]
    for path in found:
        os.mkfifo(path)
    yield found


def open_gate(path: Path, word: str) -> None:
    """Let the job that waits at a gate go on."""
    path.write_text(word + "\n")


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_two_hundred_jobs_survive_the_daemon(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    daemon = make_daemon(config="[scheduler]\nslots = 200\n")
    daemon.start()
    with gates(tmp_path, 250) as paths:
        script = "echo $JOB_ID >> {runs}; read word < {gate}; case $word in k) kill -9 $$;; *) exit $word;; esac"
        runs = tmp_path / "runs"
        ids = submit(daemon, *[shell(script.format(runs=runs, gate=gate)) for gate in paths])
        eventually(lambda: count(daemon, "RUNNING") == 200, "200 run")
        waiter = daemon.popen("wait", "--json", ids[0])
        daemon.kill9()
        for index in range(100):
            open_gate(paths[index], "k" if index % 10 == 9 else str(index + 1))
        keepers = daemon.keepers()
        assert len(keepers) == 1
        daemon.start()
        eventually(lambda: count(daemon, "FAILED") == 100, "100 have ended")
        found = jobs(daemon)
        for index, id in enumerate(ids[:100]):
            job = found[id]
            if index % 10 == 9:
                assert (job["exit_status"], job["terminating_signal"]) == (None, "SIGKILL")
            else:
                assert (job["exit_status"], job["terminating_signal"]) == (index + 1, None)
            assert job["user_time"] is not None
            assert job["finish_time"] >= job["dispatch_time"]
        assert waiter.wait(30) == 1
        waiter.communicate()
        eventually(lambda: count(daemon, "RUNNING") == 150, "the waiting ones were started")
        for gate in paths[100:]:
            open_gate(gate, "0")
        eventually(lambda: count(daemon, "DONE") == 150, "all have ended")
        assert sorted(runs.read_text().split(), key=int) == ids
        assert daemon.keepers() == keepers


@pytest.mark.parametrize("point", ["before-commit", "after-commit", "before-record"])
def test_a_daemon_that_dies_at_a_named_point(make_daemon: MakeDaemon, tmp_path: Path, point: str) -> None:
    """``before-commit`` and ``after-commit`` strike at the submission itself: it is sent again by its request id."""
    daemon = make_daemon()
    daemon.start({"JOBD_CRASH_AT": point})
    template = shell(f"echo $JOB_ID >> {tmp_path}/runs; exit 3")
    command = daemon.popen("submit", "--request-id", "r", "--", "sh", "-c", template["args"][1])
    assert daemon.wait() == -signal.SIGKILL
    daemon.start()
    assert command.wait(30) == 0
    assert command.communicate()[0] == b"1\n"
    assert daemon.jobd("wait", "1").returncode == 3
    assert (tmp_path / "runs").read_text() == "1\n"
    again = daemon.jobd("submit", "--request-id", "r", "--", "sh", "-c", template["args"][1])
    assert again.stdout == b"1\n"
    assert [event["to"] for event in daemon.info("1")["events"]] == ["QUEUED", "RUNNING", "FAILED"]


def test_a_daemon_that_dies_between_a_cause_and_its_signal(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    daemon.start({"JOBD_CRASH_AT": "before-signal"})
    id = daemon.submit("--", "sleep", "300")
    assert daemon.jobd("wait", "--for", "started", id).returncode == 0
    ending = daemon.popen("terminate", id)
    assert daemon.wait() == -signal.SIGKILL
    daemon.start()
    assert daemon.jobd("wait", id).returncode == 143
    assert daemon.info(id)["sub_state"] == "terminated"
    ending.communicate(timeout=30)


def test_a_keeper_that_dies_between_starting_and_fork(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    daemon = make_daemon()
    daemon.start({"JOBD_CRASH_AT": "after-starting"})
    (id,) = submit(daemon, shell(f"echo x >> {tmp_path}/runs"))
    eventually(lambda: jobs(daemon)[id]["state"] == "FAILED", "it ended")
    job = daemon.info(id)
    assert (job["exit_status"], job["sub_state"]) == (None, "exit-status-unknown")
    assert not (tmp_path / "runs").exists()


def test_a_keeper_that_dies_after_the_fork(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    daemon = make_daemon()
    daemon.start({"JOBD_CRASH_AT": "after-fork"})
    with gates(tmp_path, 1) as (gate,):
        (id,) = submit(daemon, shell(f"echo x >> {tmp_path}/runs; read word < {gate}; exit $word"))
        eventually(lambda: jobs(daemon)[id]["state"] == "RUNNING", "it is followed")
        daemon.kill9()
        daemon.start()
        open_gate(gate, "7")
        eventually(lambda: jobs(daemon)[id]["state"] == "FAILED", "it ended")
    assert_truthful(jobs(daemon)[id], 7)
    assert (tmp_path / "runs").read_text() == "x\n"


def test_a_keeper_that_dies_after_an_end_was_journalled(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    daemon.start({"JOBD_CRASH_AT": "after-ended"})
    (id,) = submit(daemon, shell("exit 9"))
    eventually(lambda: jobs(daemon)[id]["state"] == "FAILED", "it ended")
    assert jobs(daemon)[id]["exit_status"] == 9


def test_keeper_and_daemon_killed_together(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    daemon = make_daemon()
    daemon.start()
    with gates(tmp_path, 2) as (early, late):
        script = "read word < {}; exit $word"
        first, second = submit(daemon, shell(script.format(early)), shell(script.format(late)))
        eventually(lambda: count(daemon, "RUNNING") == 2, "both run")
        (keeper,) = daemon.keepers()
        os.kill(keeper, signal.SIGKILL)
        daemon.kill9()
        open_gate(early, "5")
        eventually(lambda: len(daemon.jobs()) == 1, "one has ended while nobody was there")
        daemon.start()
        # As an orphan it is a zombie until init reaps it, which can take seconds; then the kernel tells.
        eventually(lambda: jobs(daemon)[first]["state"] == "FAILED", "its end is known")
        assert_truthful(jobs(daemon)[first], 5)
        open_gate(late, "6")
        eventually(lambda: jobs(daemon)[second]["state"] == "FAILED", "the other ended")
    assert_truthful(jobs(daemon)[second], 6)


def test_the_keeper_alone_is_killed(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    daemon = make_daemon()
    daemon.start()
    with gates(tmp_path, 1) as (gate,):
        (id,) = submit(daemon, shell(f"read word < {gate}; exit $word"))
        eventually(lambda: count(daemon, "RUNNING") == 1, "it runs")
        (keeper,) = daemon.keepers()
        os.kill(keeper, signal.SIGKILL)
        assert daemon.jobd("run", "--", "sh", "-c", "exit 4").returncode == 4
        assert daemon.keepers() not in ([], [keeper])
        assert jobs(daemon)[id]["state"] == "RUNNING"
        assert daemon.jobd("suspend", id).returncode == 0
        assert jobs(daemon)[id]["state"] == "SUSPENDED"
        assert daemon.jobd("resume", id).returncode == 0
        open_gate(gate, "8")
        # The daemon is the keeper's ancestor and a subreaper, so it is the parent now.
        assert daemon.jobd("wait", id).returncode == 8


def test_a_stopped_daemon_that_goes_on_harms_nothing(make_daemon: MakeDaemon) -> None:
    """A second generation while the first is stopped: the lock keeps it out, and with the lock gone the keeper does."""
    daemon = make_daemon()
    daemon.start()
    id = daemon.submit("--", "sleep", "300")
    assert daemon.jobd("wait", "--for", "started", id).returncode == 0
    daemon.signal(signal.SIGSTOP)
    try:
        second = daemon.popen("serve")
        assert second.wait(20) == 69
        assert b"already runs" in second.communicate()[1]
    finally:
        daemon.signal(signal.SIGCONT)
    assert daemon.info(id)["state"] == "RUNNING"
    assert daemon.jobd("terminate", id).returncode == 0


def test_a_client_waits_through_a_crash(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    daemon.start()
    running = daemon.popen("run", "--", "sh", "-c", "echo one; read x < /dev/null; sleep 1; echo two; exit 6")
    assert running.stdout is not None
    assert running.stdout.readline() == b"one\n"
    daemon.kill9()
    daemon.start()
    rest, errors = running.communicate(timeout=30)
    assert (running.returncode, rest) == (6, b"two\n")
    assert b"waiting for it to come back" in errors


@pytest.mark.parametrize("operation", ["hold", "terminate"])
def test_a_granted_job_is_taken_back_or_has_started(make_daemon: MakeDaemon, tmp_path: Path, operation: str) -> None:
    """With work granted ahead, what is held or ended never runs, or was running: one answer, the keeper's."""
    daemon = make_daemon(config="[scheduler]\nslots = 2\n")
    daemon.start()
    submit(daemon, *[shell(":")] * 200)
    ids = submit(daemon, *[shell(f"echo $JOB_ID >> {tmp_path}/runs")] * 100)
    result = daemon.request(operation, {"selection": {"ids": [f"{ids[0]}-{ids[-1]}"]}})
    daemon.kill9()
    daemon.start()
    held = set(result["done"])
    eventually(lambda: all(job["state"] not in ("QUEUED", "RUNNING") for job in jobs(daemon).values()), "all is still")
    ran = (tmp_path / "runs").read_text().split() if (tmp_path / "runs").exists() else []
    found = jobs(daemon)
    assert len(ran) == len(set(ran))
    if operation == "hold":
        assert not held & set(ran)
        assert all(found[id]["state"] == "QUEUED_HELD" for id in held)
        assert {row["job_id"] for row in result["failed"]} <= set(ran) == set(ids) - held
    else:
        assert all(found[id]["state"] in ENDED for id in ids)
        assert all(found[id]["sub_state"] == "terminated" for id in held)


def test_after_a_reboot(make_daemon: MakeDaemon) -> None:
    """Everything is gone, and the journal tells of another boot: known to be so, or run again where it may be."""
    daemon = make_daemon()
    daemon.start()
    lost, again = submit(daemon, shell("sleep 300"), shell("sleep 300", rerunnable=True))
    eventually(lambda: count(daemon, "RUNNING") == 2, "both run")
    (keeper,) = daemon.keepers()
    daemon.kill9()
    os.kill(keeper, signal.SIGKILL)
    for process in daemon.jobs():
        os.kill(process.pid, signal.SIGKILL)
    eventually(lambda: not daemon.jobs(), "nothing runs any more")
    (journal,) = (daemon.state_dir / "keepers").glob("*/journal")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    journal.write_text(journal.read_text().replace(boot, "00000000-0000-0000-0000-000000000000"))
    daemon.start()
    job = jobs(daemon)[lost]
    assert (job["state"], job["sub_state"], job["exit_status"]) == ("FAILED", "node-rebooted", None)
    assert daemon.jobd("wait", lost).returncode == 119
    eventually(lambda: jobs(daemon)[again]["state"] == "RUNNING", "it runs again")
    assert jobs(daemon)[again]["attempt"] == 2
    states = [event["to"] for event in daemon.info(again)["events"]]
    assert states == ["QUEUED", "RUNNING", "REQUEUED", "RUNNING"]
