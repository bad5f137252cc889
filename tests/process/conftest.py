"""Fixtures for tests of the process backend."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobd.backends.process.keeper.tree import look
from tests.process.desk import Desk, end_everything


@pytest.fixture
def desk(state_dir: Path) -> Iterator[Desk]:
    """A daemon's memory; whatever its jobs and keepers left is ended afterwards."""
    yield Desk(state_dir)
    end_everything()
    for pid in keepers_of(state_dir):
        _kill(pid)


def keepers_of(state_dir: Path) -> list[int]:
    """The pids of keepers of a state folder that still run, by their command lines."""
    import os

    found = []
    for name in os.listdir("/proc"):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0") if name.isdigit() else []
        except OSError:
            continue
        if any(word.startswith(os.fsencode(state_dir / "keepers")) for word in words) and look(int(name)):
            found.append(int(name))
    return found


def _kill(pid: int) -> None:
    import os

    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
