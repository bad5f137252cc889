"""What runs for a state folder: found by what only jobd gives a process, and ended by descriptor."""

from __future__ import annotations

import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process as it was when it was looked at; ``argv`` is empty for a zombie."""

    pid: int
    parent: int
    argv: tuple[bytes, ...]
    environ: frozenset[bytes]


def look(pid: int) -> Process | None:
    """A process, or None where there is none or it may not be seen."""
    folder = Path("/proc") / str(pid)
    try:
        parent = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[1])
        argv = tuple((folder / "cmdline").read_bytes().split(b"\0")[:-1])
        environ = frozenset((folder / "environ").read_bytes().split(b"\0"))
    except OSError:
        return None
    return Process(pid, parent, argv, environ)


def everything() -> list[Process]:
    """All processes that may be seen."""
    found = (look(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [process for process in found if process is not None]


def of_state(state_dir: Path, token_prefix: str | None = None) -> list[Process]:
    """Daemons, keepers and jobs of a state folder, and all that descends from them.

    Args:
        state_dir: the state folder of a test.
        token_prefix: how its jobs' tokens begin, so that a job is found whose keeper is gone.
    """
    processes = [process for process in everything() if process.pid != os.getpid()]
    wanted = {process.pid for process in processes if _belongs(process, state_dir, token_prefix)}
    while more := {p.pid for p in processes if p.parent in wanted and p.pid not in wanted}:
        wanted |= more
    return [process for process in processes if process.pid in wanted]


def keepers_of(state_dir: Path) -> list[int]:
    """The pids of the keepers of a state folder."""
    return [process.pid for process in everything() if _is_keeper(process, state_dir)]


def _belongs(process: Process, state_dir: Path, token_prefix: str | None) -> bool:
    if _is_keeper(process, state_dir) or _is_daemon(process, state_dir):
        return True
    token = b"JOBD_TOKEN=" + (token_prefix or "").encode()
    return token_prefix is not None and any(entry.startswith(token) for entry in process.environ)


def _is_keeper(process: Process, state_dir: Path) -> bool:
    keepers = os.fsencode(state_dir / "keepers") + b"/"
    return any(argument.endswith(b"keeper/__main__.py") for argument in process.argv) and any(
        argument.startswith(keepers) for argument in process.argv
    )


def _is_daemon(process: Process, state_dir: Path) -> bool:
    words = process.argv
    serves = b"serve" in words and os.fsencode(state_dir) in words
    return serves or (b"serve" in words and b"JOBD_STATE_DIR=" + os.fsencode(state_dir) in process.environ)


def end_all(state_dir: Path, token_prefix: str | None = None, timeout: float = 10) -> None:
    """Kill what runs for a state folder: daemons first, so that nothing new is started."""
    for _ in range(20):
        found = of_state(state_dir, token_prefix)
        if not found:
            return
        for process in sorted(found, key=lambda one: not _is_daemon(one, state_dir)):
            kill(process, timeout)
    left = [process.argv or process.pid for process in of_state(state_dir, token_prefix)]
    assert not left, f"could not be ended: {left}"


def kill(process: Process, timeout: float = 10) -> None:
    """Kill a process if the pid is still its own, and wait for its end."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        now = look(process.pid)
        if now is None or now.environ != process.environ:
            return
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        select.select([descriptor], [], [], timeout)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)
