"""A user's own daemon under the user's service manager."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from tests.helpers.waiting import eventually
from tests.system.conftest import Machine

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def user_service(machine: Machine, user: str) -> Iterator[Machine]:
    """The machine with a user's daemon under the user's manager, not started yet."""
    folder = f"/home/{user}/.config/systemd/user"
    machine.install("systemd/user", folder, f"--state-dir /home/{user}/.local/state/jobd", "60s")
    machine.run("chown", "-R", f"{user}:", f"/home/{user}")
    machine.as_user(user, "systemctl", "--user", "daemon-reload")
    try:
        yield machine
    finally:
        jobd(machine, user, "shutdown", "--terminate-jobs", check=False)
        machine.as_user(user, "systemctl", "--user", "stop", "jobd.socket", "jobd.service", check=False)


def jobd(machine: Machine, user: str, *words: str, check: bool = True) -> str:
    return machine.as_user(user, sys.executable, "-m", "jobd", *words, check=check)


def native_id(machine: Machine, user: str, id: str) -> str:
    jobd(machine, user, "wait", "--for", "started", "--timeout", "30", id)
    return jobd(machine, user, "list", "-o", "native_id", "--all").split()[-1]


def test_the_socket_lies_where_clients_look_and_starts_it(user_service: Machine, user: str) -> None:
    user_service.as_user(user, "systemctl", "--user", "start", "jobd.socket")
    assert jobd(user_service, user, "run", "--no-autostart", "--", "id", "-un") == user
    assert user_service.as_user(user, "systemctl", "--user", "is-active", "jobd.service") == "active"
    folders = [f"/home/{user}/.local/state/jobd/run", f"/home/{user}/.local/state/jobd/run/jobd.sock"]
    assert user_service.run("stat", "-c", "%a", *folders) == "700\n600"


def test_jobs_survive_a_restart_in_a_scope_of_the_users_manager(user_service: Machine, user: str) -> None:
    user_service.as_user(user, "systemctl", "--user", "start", "jobd.service")
    id = jobd(user_service, user, "submit", "--", "sleep", "300")
    leader = native_id(user_service, user, id)
    group = user_service.run("cat", f"/proc/{leader}/cgroup").splitlines()[-1]
    assert "/user@" in group
    assert group.rpartition("/")[2].startswith("jobd-keeper-")
    user_service.as_user(user, "systemctl", "--user", "restart", "jobd.service")
    assert native_id(user_service, user, id) == leader
    assert user_service.run("ps", "-o", "comm=", leader) == "sleep"


def test_a_daemon_that_a_command_started_leaves_the_session_with_its_jobs(machine: Machine, user: str) -> None:
    id = jobd(machine, user, "submit", "--", "sleep", "300")
    leader = native_id(machine, user, id)
    try:
        daemon = str(json.loads(jobd(machine, user, "status", "--json"))["pid"])
        for pid, scope in ((leader, "jobd-keeper-"), (daemon, "jobd-daemon-")):
            group = machine.run("cat", f"/proc/{pid}/cgroup").splitlines()[-1]
            assert "/user@" in group
            assert group.rpartition("/")[2].startswith(scope)
    finally:
        jobd(machine, user, "shutdown", "--terminate-jobs")
    eventually(lambda: machine.run("pgrep", "-cu", user, "sleep", check=False) == "0", "nothing is left")
