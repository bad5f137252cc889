"""What systemd is told."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from jobd.notify import Notifier


@pytest.fixture
def manager(state_dir: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(state_dir / "notify"))
        channel.settimeout(10)
        yield channel


def test_a_message_arrives(manager: socket.socket) -> None:
    Notifier({"NOTIFY_SOCKET": manager.getsockname()}).send("READY=1\nSTATUS=ready")
    assert manager.recv(100) == b"READY=1\nSTATUS=ready"


def test_an_abstract_address() -> None:
    name = f"jobd-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind("\0" + name)
        channel.settimeout(10)
        Notifier({"NOTIFY_SOCKET": "@" + name}).send("READY=1")
        assert channel.recv(100) == b"READY=1"


def test_a_manager_that_does_not_listen_is_no_error(state_dir: Path) -> None:
    before = os.listdir("/proc/self/fd")
    Notifier({"NOTIFY_SOCKET": str(state_dir / "nobody")}).send("READY=1")
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.anyio
async def test_the_watchdog_is_told_again_and_again(manager: socket.socket) -> None:
    environ = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "100000"}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Notifier(environ).watchdog)
        for _ in range(3):
            assert await anyio.to_thread.run_sync(manager.recv, 100) == b"WATCHDOG=1"
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
@pytest.mark.parametrize(
    "environ",
    [{}, {"NOTIFY_SOCKET": "/x"}, {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "100000", "WATCHDOG_PID": "1"}],
    ids=["no manager", "no watchdog", "another process's watchdog"],
)
async def test_without_a_watchdog_of_ones_own_there_is_nothing_to_do(environ: dict[str, str]) -> None:
    with anyio.fail_after(5):
        await Notifier(environ).watchdog()
    assert Notifier(environ)._period == 0 or "NOTIFY_SOCKET" not in environ
