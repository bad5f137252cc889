"""Starting a keeper: a child of the daemon, in a session of its own, with nothing of the daemon's in its hands."""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path

import structlog

from jobd.descriptors import restore_limit
from jobd.model.errors import DrmCommunication
from jobd.paths import ensure_private_folder
from jobd.scope import own_scope

_log = structlog.get_logger(__name__)

_READY = b"ready\n"
_READY_WITHIN = 30_000
_PROGRAM = Path(__file__).parent / "keeper" / "__main__.py"


def launch(folder: Path) -> int:
    """Start a keeper for a folder and wait until its socket is there; its pid. Blocking, for a bounded time.

    Raises:
        OSError: there are no processes or descriptors left.
        DrmCommunication: its folder can't be made, or it did not come up.
    """
    ensure_private_folder(folder.parent)
    ensure_private_folder(folder)
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        pid = _spawn(folder, writing)
    finally:
        os.close(writing)
    try:
        restore_limit(pid)
        if not _is_ready(reading):
            os.kill(pid, signal.SIGKILL)
            raise DrmCommunication(f"the keeper for {folder} did not come up (wait status {wait(pid)})")
    finally:
        os.close(reading)
    stays = own_scope(pid, "jobd-keeper")
    if stays is not None:
        _log.warning("the keeper stays in the daemon's control group", keeper=folder.name, reason=stays)
    return pid


def wait(pid: int) -> int | None:
    """Wait for a keeper that is dead or dying; its wait status, None where nobody knows it any more."""
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return None


def _spawn(folder: Path, output: int) -> int:
    """The keeper outlives the daemon, and so it is no ``subprocess.Popen``, which would have to be waited for."""
    environ = {name: os.environ[name] for name in ("JOBD_CRASH_AT",) if name in os.environ}
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", os.fspath(_PROGRAM), os.fspath(folder)],
        environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
        ],
        setsid=True,
        setsigmask=(),
    )


def _is_ready(reading: int) -> bool:
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    return bool(poll.poll(_READY_WITHIN)) and os.read(reading, len(_READY)) == _READY
