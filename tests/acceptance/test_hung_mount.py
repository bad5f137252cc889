"""A file system that hangs holds up the one job that lies on it, and nobody else."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.daemon import Daemon
from tests.helpers.needs import needs_root
from tests.helpers.waiting import eventually

pytestmark = [
    needs_root,
    pytest.mark.skipif(not os.access("/dev/fuse", os.W_OK), reason="needs /dev/fuse"),
]


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[Path]:
    """A FUSE mount whose server never answers: the descriptor is held, and nobody reads from it (fuse(4))."""
    place = tmp_path / "hung"
    place.mkdir()
    server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"jobd-test", os.fsencode(place), b"fuse", 0, options):
        os.close(server)
        pytest.skip(f"can't mount: {os.strerror(ctypes.get_errno())}")
    yield place
    os.close(server)
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.parametrize("use", ["working directory", "input", "output", "program"])
def test_others_run_and_it_can_be_ended(daemon: Daemon, hung: Path, use: str) -> None:
    words = {
        "working directory": ["-C", str(hung), "--", "true"],
        "input": ["-i", f"{hung}/file", "--", "cat"],
        "output": ["-o", f"{hung}/file", "--", "true"],
        "program": ["--", f"{hung}/program"],
    }[use]
    id = daemon.submit(*words)
    eventually(lambda: daemon.info(id)["sub_state"] == "starting", "it hangs before its exec")
    for _ in range(3):
        began = time.monotonic()
        assert daemon.jobd("run", "--", "echo", "fine").stdout == b"fine\n"
        assert time.monotonic() - began < 5
    assert daemon.jobd("terminate", "--grace", "1", id).returncode == 0
    assert daemon.info(id)["sub_state"] == "terminated"
    assert daemon.jobd("run", "--", "true").returncode == 0


def test_reading_output_from_it_hangs_nobody(daemon: Daemon, hung: Path) -> None:
    id = daemon.submit("--hold", "-o", f"{hung}/file", "--", "true")
    reading = [daemon.popen("logs", id) for _ in range(3)]
    assert daemon.jobd("run", "--", "echo", "fine").stdout == b"fine\n"
    assert daemon.jobd("status").returncode == 0
    for one in reading:
        one.communicate(timeout=30)
        assert one.returncode == 3
