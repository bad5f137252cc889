"""Starting a keeper: a child of the daemon, in a session of its own, with nothing of the daemon's in its hands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from jobd.descriptors import restore_limit
from jobd.model.errors import DrmCommunication
from jobd.paths import ensure_private_folder

_READY = b"ready"
_PROGRAM = Path(__file__).parent / "keeper" / "__main__.py"


def launch(folder: Path) -> subprocess.Popen[bytes]:
    """Start a keeper for a folder and wait until its socket is there. Blocking.

    Raises:
        DrmCommunication: it did not come up.
    """
    ensure_private_folder(folder.parent)
    ensure_private_folder(folder)
    environ = {name: os.environ[name] for name in ("JOBD_CRASH_AT",) if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", os.fspath(_PROGRAM), os.fspath(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=environ,
        start_new_session=True,
    )
    restore_limit(process.pid)
    assert process.stdout is not None
    with process.stdout:
        said = process.stdout.readline()
    if said.strip() != _READY:
        raise DrmCommunication(f"the keeper for {folder} did not start (exit status {process.wait()})")
    return process
