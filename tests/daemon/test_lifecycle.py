"""A daemon starts, stops, crashes and comes back, and its jobs run on."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from tests.conftest import MakeDaemon
from tests.helpers.daemon import Daemon
from tests.helpers.needs import User
from tests.helpers.waiting import eventually, wait_gone


def test_a_command_runs_through(daemon: Daemon) -> None:
    done = daemon.jobd("run", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_jobs_run_on_without_a_daemon(daemon: Daemon, number: signal.Signals) -> None:
    id = daemon.submit("--", "sleep", "300")
    eventually(lambda: daemon.info(id)["state"] == "RUNNING", "the job runs")
    leader = int(daemon.info(id)["native_id"])
    daemon.end(number)
    assert leader in [process.pid for process in daemon.jobs()]
    daemon.start()
    assert daemon.info(id)["state"] == "RUNNING"
    assert int(daemon.info(id)["native_id"]) == leader
    assert daemon.jobd("terminate", id).returncode == 0
    assert daemon.jobs() == []


def test_a_stop_is_a_success(daemon: Daemon) -> None:
    assert daemon.stop() == 0
    assert not daemon.socket.exists()


def test_an_idle_keeper_leaves_with_its_daemon(daemon: Daemon) -> None:
    assert daemon.jobd("run", "--", "true").returncode == 0
    assert len(daemon.keepers()) == 1
    assert daemon.jobd("shutdown", "--terminate-jobs").returncode == 0
    assert daemon.keepers() == []
    daemon.wait()


def test_a_second_daemon_on_one_state_folder_is_refused(daemon: Daemon) -> None:
    second = daemon.jobd("serve", "--state-dir", str(daemon.state_dir))
    assert second.returncode == 69
    assert b"a daemon already runs for" in second.stderr
    assert daemon.jobd("status").returncode == 0


def test_a_bad_configuration_is_refused_at_start(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(config="[scheduler]\nslot = 1\n")
    done = daemon.jobd("serve")
    assert done.returncode == 2
    assert b"did you mean slots?" in done.stderr


def test_a_bad_configuration_leaves_the_old_one_in_force(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(config="[scheduler]\nslots = 7\n")
    daemon.start()
    daemon.configure("[scheduler]\nslots = 'x'\n")
    daemon.signal(signal.SIGHUP)
    eventually(lambda: "was not reloaded" in daemon.logged(), "the log says so")
    assert daemon.request("config_show")["config"]["scheduler"]["slots"] == 7
    daemon.configure("[scheduler]\nslots = 8\n")
    daemon.signal(signal.SIGHUP)
    eventually(lambda: "configuration reloaded" in daemon.logged(), "the log says so")
    assert daemon.request("queue_list")["queues"][0]["slots"] == 8


def test_everything_is_private_whatever_the_umask(make_daemon: MakeDaemon) -> None:
    before = os.umask(0)
    try:
        daemon = make_daemon()
        daemon.start()
    finally:
        os.umask(before)
    assert daemon.jobd("run", "--", "echo", "x").returncode == 0
    open_to_others = [
        path
        for path in daemon.state_dir.rglob("*")
        if path.name != "jobd.toml" and stat.S_IMODE(path.lstat().st_mode) & 0o077
    ]
    assert open_to_others == []


def test_a_socket_that_vanished_is_bound_again(daemon: Daemon) -> None:
    daemon.socket.unlink()
    eventually(daemon.socket.exists, "the socket is back")
    assert daemon.jobd("status").returncode == 0


def test_a_stale_socket_is_replaced(daemon: Daemon) -> None:
    daemon.kill9()
    assert daemon.socket.exists()
    daemon.start()
    assert daemon.jobd("status").returncode == 0


def test_a_path_too_long_for_a_socket_address(make_daemon: MakeDaemon, state_dir: Path) -> None:
    deep = state_dir / ("d" * 100)
    deep.mkdir(mode=0o700)
    daemon = make_daemon(deep)
    daemon.start()
    assert daemon.jobd("run", "--", "echo", "x").stdout == b"x\n"


def test_autostart_returns_at_once_and_leaves_one_daemon(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    commands = [daemon.popen("submit", "--", "sleep", "300", environ={"JOBD_NO_AUTOSTART": "0"}) for _ in range(2)]
    ids = sorted(command.communicate(timeout=30)[0] for command in commands)
    assert ids == [b"1\n", b"2\n"]
    daemon.store_id = daemon.request("status")["hello"]["store"]
    serving = [one for one in daemon.processes() if b"serve" in one.argv]
    eventually(lambda: len([one for one in daemon.processes() if b"serve" in one.argv]) == 1, f"one of {serving}")
    assert daemon.jobd("shutdown", "--terminate-jobs").returncode == 0
    assert daemon.processes() == []


def test_as_an_ordinary_user(make_daemon: MakeDaemon, user_with_python: User) -> None:
    daemon = make_daemon(user=user_with_python)
    daemon.start()
    done = daemon.jobd("run", "--", "id", "-u")
    assert done.stdout.decode().strip() == str(user_with_python.uid)


def test_the_keeper_ends_when_it_has_nothing_left(daemon: Daemon) -> None:
    assert daemon.jobd("run", "--", "true").returncode == 0
    keepers = daemon.keepers()
    assert len(keepers) == 1
    daemon.stop()
    wait_gone(keepers[0])


def test_the_helper_clears_away_jobs_that_lost_their_keeper(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    daemon.start()
    id = daemon.submit("--", "sleep", "300")
    leader = int(eventually(lambda: daemon.info(id)["native_id"], "the job runs"))
    daemon.kill9()
    for keeper in daemon.keepers():
        os.kill(keeper, signal.SIGKILL)
        wait_gone(keeper)
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["tail", "--pid", str(leader), "-f", "/dev/null"], timeout=0.2, check=False)
    daemon.clear()
    wait_gone(leader)
