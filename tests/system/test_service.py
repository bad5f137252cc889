"""jobd under a real systemd: jobs survive restart and stop; socket activation; the watchdog."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.helpers.waiting import eventually
from tests.system.conftest import Machine

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(300)]

SERVICE = "jobd.service"


def submit(machine: Machine, *words: str) -> str:
    id = machine.jobd("submit", "--", *words)
    machine.jobd("wait", "--for", "started", "--timeout", "30", id)
    return id


def job(machine: Machine, id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(machine.jobd("show", "--json", id))["jobs"][0]
    return found


def main_pid(machine: Machine) -> int:
    return int(machine.property(SERVICE, "MainPID"))


def test_it_is_started_when_it_is_ready(system_service: Machine) -> None:
    assert system_service.property(SERVICE, "ActiveState") == "active"
    assert system_service.property(SERVICE, "StatusText") == "ready"
    status = json.loads(system_service.jobd("status", "--json"))
    assert (status["ready"], status["socket"]) == (True, "/run/jobd/jobd.sock")
    assert system_service.run("stat", "-c", "%a", "/run/jobd/jobd.sock", "/var/lib/jobd") == "660\n700"


def test_the_keeper_has_a_scope_of_its_own_and_its_jobs_are_in_it(system_service: Machine) -> None:
    leader = job(system_service, submit(system_service, "sleep", "300"))["native_id"]
    group = system_service.run("cat", f"/proc/{leader}/cgroup").splitlines()[-1]
    assert group.startswith("0::/system.slice/jobd-keeper-")
    scope = group.rpartition("/")[2]
    assert system_service.property(scope, "TasksMax") == "infinity"
    assert system_service.property(scope, "Delegate") == "yes"


@pytest.mark.parametrize("how", ["restart", "stop and start", "kill"])
def test_jobs_survive(system_service: Machine, how: str) -> None:
    id = submit(system_service, "sh", "-c", "while [ ! -e /tmp/go-on ]; do sleep 0.05; done; rm /tmp/go-on; exit 7")
    leader, daemon = job(system_service, id)["native_id"], main_pid(system_service)
    if how == "restart":
        system_service.run("systemctl", "restart", SERVICE)
    elif how == "kill":
        system_service.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", SERVICE)
        eventually(lambda: main_pid(system_service) not in (0, daemon), "systemd starts it again", 30)
    else:
        system_service.run("systemctl", "stop", "jobd.socket", SERVICE)
        assert system_service.run("ps", "-o", "comm=", leader) == "sh"
        system_service.run("systemctl", "start", SERVICE)
    assert main_pid(system_service) != daemon
    found = job(system_service, id)
    assert (found["state"], found["native_id"]) == ("RUNNING", leader)
    system_service.run("touch", "/tmp/go-on")
    system_service.jobd("wait", "--timeout", "30", id, check=False)
    found = job(system_service, id)
    assert (found["state"], found["exit_status"]) == ("FAILED", 7)


def test_a_job_that_ends_while_the_service_is_stopped_keeps_its_status(system_service: Machine) -> None:
    id = submit(system_service, "sh", "-c", "while [ ! -e /tmp/go-on ]; do sleep 0.05; done; exit 9")
    leader = job(system_service, id)["native_id"]
    system_service.run("systemctl", "stop", "jobd.socket", SERVICE)
    system_service.run("touch", "/tmp/go-on")
    eventually(lambda: system_service.run("ps", "-o", "stat=", leader, check=False) == "", "the job ends", 30)
    system_service.run("rm", "/tmp/go-on")
    system_service.run("systemctl", "start", SERVICE)
    assert job(system_service, id)["exit_status"] == 9


def test_the_socket_starts_it(system_service: Machine) -> None:
    system_service.run("systemctl", "stop", SERVICE)
    assert system_service.property("jobd.socket", "ActiveState") == "active"
    assert system_service.property(SERVICE, "ActiveState") == "inactive"
    assert system_service.jobd("run", "--", "echo", "activated") == "activated"
    assert system_service.property(SERVICE, "ActiveState") == "active"


def test_a_client_that_calls_during_a_restart_waits(system_service: Machine) -> None:
    for _ in range(3):
        system_service.run("systemctl", "restart", "--no-block", SERVICE)
        assert system_service.jobd("run", "--", "echo", "x") == "x"


def test_a_daemon_that_hangs_is_started_again_and_jobs_run_on(system_service: Machine) -> None:
    id = submit(system_service, "sleep", "300")
    leader, daemon = job(system_service, id)["native_id"], main_pid(system_service)
    system_service.run("kill", f"-{signal.SIGSTOP.value}", str(daemon))
    eventually(lambda: main_pid(system_service) not in (0, daemon), "the watchdog acts", 60)
    eventually(lambda: system_service.property(SERVICE, "ActiveState") == "active", "it is ready again", 30)
    found = job(system_service, id)
    assert (found["state"], found["native_id"]) == ("RUNNING", leader)


def test_reload_reads_the_configuration(system_service: Machine) -> None:
    system_service.write("/etc/jobd/jobd.toml", "[scheduler]\nslots = 11\n")
    system_service.run("systemctl", "reload", SERVICE)
    eventually(
        lambda: json.loads(system_service.jobd("queue", "list", "--json"))["queues"][0]["slots"] == 11,
        "11 slots",
    )
    system_service.write("/etc/jobd/jobd.toml", "[scheduler]\nslot = 12\n")
    system_service.run("systemctl", "reload", SERVICE)
    eventually(
        lambda: "did you mean slots" in system_service.run("journalctl", "-u", SERVICE, "-o", "cat"),
        "a log line",
    )
    assert json.loads(system_service.jobd("queue", "list", "--json"))["queues"][0]["slots"] == 11


def test_terminating_jobs_leaves_nothing(system_service: Machine) -> None:
    submit(system_service, "sh", "-c", "setsid sleep 300 & sleep 300")
    system_service.jobd("shutdown", "--terminate-jobs")
    assert system_service.run("pgrep", "-c", "sleep", check=False) == "0"
    eventually(lambda: not system_service.keepers(), "the keeper and its scope end")
