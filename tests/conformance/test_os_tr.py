"""Processes and the tracker: cases OS-* and TR-* of the reference's tests, through a real daemon and its commands."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeDaemon
from tests.helpers.daemon import Daemon
from tests.helpers.waiting import eventually


def submit(daemon: Daemon, command: str, *args: str, **template: Any) -> str:
    """Submit a template; the id."""
    whole = {"remote_command": command, "args": list(args), **template}
    return str(daemon.request("submit", {"templates": [whole]})["jobs"][0]["job_id"])


def wait(daemon: Daemon, id: str, goal: str = "terminated", timeout: float = 10) -> dict[str, Any]:
    """Wait for a job; how it stood."""
    params = {"selection": {"ids": [id]}, "for": goal, "timeout": timeout}
    job: dict[str, Any] = daemon.request("wait", params)["jobs"][0]
    return job


def changes(daemon: Daemon, id: str) -> list[str]:
    """The states that a job went through."""
    return [event["to"] for event in daemon.info(id)["events"]]


def test_os_1_and_2_a_process_that_exists_and_can_be_killed(daemon: Daemon) -> None:
    id = submit(daemon, "sleep", "300")
    pid = int(wait(daemon, id, "started")["native_id"])
    assert pid > 1
    os.kill(pid, signal.SIGKILL)
    assert wait(daemon, id)["terminating_signal"] == "SIGKILL"


def test_os_3_and_tr_12_suspend_resume_terminate(daemon: Daemon) -> None:
    id = submit(daemon, "sleep", "300")
    assert wait(daemon, id, "started")["state"] == "RUNNING"
    for verb, state in (("suspend", "SUSPENDED"), ("resume", "RUNNING"), ("terminate", "FAILED")):
        assert daemon.jobd(verb, id).returncode == 0
        assert daemon.info(id)["state"] == state
    assert changes(daemon, id) == ["QUEUED", "RUNNING", "SUSPENDED", "RUNNING", "FAILED"]


def test_os_4_to_6_files(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("input\n")
    files = {"input_path": "in", "output_path": "out", "error_path": "err", "working_directory": str(tmp_path)}
    wait(daemon, submit(daemon, "sh", "-c", "cat; echo error >&2", **files))
    assert (tmp_path / "out").read_text() == "input\n"
    assert (tmp_path / "err").read_text() == "error\n"


@pytest.mark.parametrize("output", ["output_path", "error_path"])
def test_os_7_a_job_can_t_read_what_it_writes(daemon: Daemon, output: str) -> None:
    done = daemon.jobd("submit", "-i", "/tmp/x", "-o" if output == "output_path" else "-e", "/tmp/x", "--", "cat")
    assert done.returncode == 2


@pytest.mark.parametrize("path", ["error_path", "input_path"])
def test_os_8_a_path_that_can_t_be_opened_fails_the_job(daemon: Daemon, path: str) -> None:
    """The reference refuses it at submission; here it is the child's to open, when it starts."""
    job = wait(daemon, submit(daemon, "true", **{path: "/no/where"}))
    assert (job["state"], job["sub_state"]) == ("FAILED", "start-failed")


def test_os_9_a_hundred_jobs_give_a_hundred_ends(daemon: Daemon) -> None:
    templates = [{"remote_command": "echo", "args": [str(number)]} for number in range(100)]
    rows = daemon.request("submit", {"templates": templates})["jobs"]
    assert daemon.jobd("wait", f"{rows[0]['job_id']}-{rows[-1]['job_id']}").returncode == 0
    ends = [line for line in daemon.jobd("events", "--json").stdout.splitlines() if b'"to": "DONE"' in line]
    assert len(ends) == 100


@pytest.mark.parametrize(("command", "state", "status"), [("true", "DONE", 0), ("false", "FAILED", 1)])
def test_os_10_to_12_events_and_info_of_an_end(daemon: Daemon, command: str, state: str, status: int) -> None:
    id = submit(daemon, command)
    job = wait(daemon, id)
    assert (job["job_id"], job["state"], job["exit_status"]) == (id, state, status)
    assert job["user_time"] is not None
    assert job["system_time"] is not None
    assert changes(daemon, id) == ["QUEUED", "RUNNING", state]


def test_tr_1_2_and_6_a_fresh_daemon(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    daemon.start()
    assert submit(daemon, "true") == "1"
    assert len(daemon.request("list")["jobs"]) == 1
    assert daemon.stop() == 0


def test_tr_7_wall_clock_time(daemon: Daemon) -> None:
    job = wait(daemon, submit(daemon, "sleep", "1"))
    assert job["wallclock_time"] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("verb", ["suspend", "resume", "hold", "release", "terminate", "reap", "wait", "logs", "show"])
def test_tr_8_and_16_an_unknown_job_is_an_error(daemon: Daemon, verb: str) -> None:
    assert daemon.jobd(verb, "99").returncode == 3


def test_tr_9_hold_and_release(daemon: Daemon) -> None:
    """Errors in the reference; here they are for what waits."""
    id = submit(daemon, "true", submit_as_hold=True)
    assert daemon.jobd("hold", id).returncode == 4
    assert daemon.jobd("release", id).returncode == 0
    assert wait(daemon, id)["state"] == "DONE"
    running = submit(daemon, "sleep", "300")
    wait(daemon, running, "started")
    assert daemon.jobd("hold", running).returncode == 4


def test_tr_10_an_unknown_action_is_an_error(daemon: Daemon) -> None:
    assert daemon.jobd("frobnicate", "1").returncode == 2


def test_tr_11_and_20_a_short_job_runs_then_is_done(daemon: Daemon) -> None:
    id = submit(daemon, "sleep", "0.3")
    assert wait(daemon, id, "RUNNING")["state"] == "RUNNING"
    assert wait(daemon, id, "DONE")["state"] == "DONE"


def test_tr_13_and_14_a_running_job_can_t_be_reaped_and_a_reaped_one_is_unknown(daemon: Daemon) -> None:
    id = submit(daemon, "sleep", "300")
    wait(daemon, id, "started")
    assert daemon.jobd("reap", id).returncode == 4
    assert daemon.jobd("terminate", id).returncode == 0
    assert daemon.jobd("reap", id).returncode == 0
    assert daemon.jobd("reap", id).returncode == 3
    assert daemon.jobd("show", id).returncode == 3


def test_tr_15_17_18_and_21_waiting_for_states(daemon: Daemon) -> None:
    id = submit(daemon, "true")
    assert wait(daemon, id)["state"] == "DONE"
    assert wait(daemon, id, "DONE", 0)["state"] == "DONE"
    for state in ("RUNNING", "SUSPENDED", "FAILED"):
        assert daemon.jobd("wait", "--for", state, id).returncode == 4
    assert daemon.jobd("wait", "--for", "nonsense", id).returncode == 2


def test_tr_19_a_wait_that_times_out(daemon: Daemon) -> None:
    id = submit(daemon, "sleep", "300")
    wait(daemon, id, "started")
    assert daemon.jobd("wait", "--for", "SUSPENDED", "--timeout", "0.4", id).returncode == 124
    assert daemon.info(id)["state"] == "RUNNING"
    assert daemon.jobd("wait", "--timeout", "0", id).returncode == 124


def test_tr_23_a_job_reads_what_another_wrote(daemon: Daemon, tmp_path: Path) -> None:
    wait(daemon, submit(daemon, "echo", "x", output_path=str(tmp_path / "a")))
    job = wait(daemon, submit(daemon, "cat", input_path=str(tmp_path / "a"), output_path=str(tmp_path / "b")))
    assert job["state"] == "DONE"
    assert (tmp_path / "b").read_text() == "x\n"


def test_tr_24_an_empty_template_is_refused(daemon: Daemon) -> None:
    for template in ("{}", '{"remote_command": ""}'):
        assert daemon.jobd("submit", "--from", "-", input=template.encode()).returncode == 2
    assert daemon.request("list")["jobs"] == []


def test_tr_26_and_27_times_stay_what_they_were(daemon: Daemon) -> None:
    id = submit(daemon, "sleep", "0.3")
    running = wait(daemon, id, "RUNNING")
    done = wait(daemon, id)
    for name in ("submission_time", "dispatch_time"):
        assert running[name] is not None
        assert done[name] == running[name]


def test_tr_33_what_waits_can_t_be_suspended(daemon: Daemon) -> None:
    id = submit(daemon, "true", submit_as_hold=True)
    assert daemon.jobd("suspend", id).returncode == 4
    assert daemon.jobd("resume", id).returncode == 4


def test_tr_34_everything_is_there_after_a_restart(daemon: Daemon) -> None:
    done, running = submit(daemon, "true"), submit(daemon, "sleep", "300")
    wait(daemon, done)
    wait(daemon, running, "started")
    daemon.kill9()
    daemon.start()
    assert {job["job_id"]: job["state"] for job in daemon.request("list")["jobs"]} == {done: "DONE", running: "RUNNING"}
    assert daemon.info(running)["template"]["args"] == ["300"]
    assert daemon.jobd("suspend", running).returncode == 0
    assert daemon.jobd("resume", running).returncode == 0
    os.kill(int(daemon.info(running)["native_id"]), signal.SIGUSR1)
    eventually(lambda: daemon.info(running)["state"] == "FAILED", "it ended")
    assert daemon.info(running)["terminating_signal"] == "SIGUSR1"
    assert wait(daemon, done)["exit_status"] == 0
