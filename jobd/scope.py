"""A systemd scope of its own for a process that outlives its parent. Standard library only.

In the control group of the daemon's service, keepers and jobs would be in a restart's way once they have
groups of their own below it, and would count as the service's; in a login session's they end with it where
logind says so. A process that is moved stays its parent's child; where there is no systemd, or it says no, it
stays where it is.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import time
from pathlib import Path

_BOOTED = Path("/run/systemd/system")
_LINGER = Path("/var/lib/systemd/linger")
_RUNTIME = Path("/run/user")
_WITHIN = 5.0
_UNLIMITED = str(2**64 - 1)


def own_scope(pid: int, name: str) -> str | None:
    """Move a process of this user, and what it will start, to the scope ``NAME-PID.scope``. Blocking.

    Returns:
        Why that was not possible, in systemd's words; None where it was, or where there is nobody to ask.
    """
    manager = _manager(os.getuid())
    if manager is None:
        return None
    unit = f"{name}-{pid}.scope"
    try:
        subprocess.run(
            ["busctl", *manager, f"--timeout={_WITHIN:g}", "call", *_start_transient_unit(unit, pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "XDG_RUNTIME_DIR": str(_RUNTIME / str(os.getuid()))},
            timeout=2 * _WITHIN,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        return str(error.stderr.decode(errors="replace").strip())
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return _until_moved(pid, unit)


def _manager(uid: int) -> list[str] | None:
    """The service manager to ask, as an option of busctl(1): sd_booted(3) says whether there is one.

    A user's manager ends with the last session, and all its scopes with it, unless the user lingers: then a
    process is better off in its session, unless it belongs to the manager already.
    """
    if not _BOOTED.is_dir():
        return None
    if uid == 0:
        return ["--system"]
    stays = _lingers(uid) or f"/user@{uid}.service/" in _control_group(os.getpid())
    return ["--user"] if stays and (_RUNTIME / str(uid) / "bus").is_socket() else None


def _lingers(uid: int) -> bool:
    try:
        return (_LINGER / pwd.getpwuid(uid).pw_name).exists()
    except KeyError:
        return False


def _start_transient_unit(unit: str, pid: int) -> list[str]:
    """The method call, in busctl's notation (org.freedesktop.systemd1(5)).

    Delegate gives jobs' groups below the scope into jobd's hands, and leaves the others alone when one job is out
    of memory.
    """
    manager = "org.freedesktop.systemd1"
    properties = {
        "Description": ["s", "Processes that jobd started"],
        "PIDs": ["au", "1", str(pid)],
        "Delegate": ["b", "true"],
        "TasksMax": ["t", _UNLIMITED],
        "CollectMode": ["s", "inactive-or-failed"],
    }
    flat = [word for name, value in properties.items() for word in (name, *value)]
    signature = "ssa(sv)a(sa(sv))"
    method = [manager, "/org/freedesktop/systemd1", f"{manager}.Manager", "StartTransientUnit", signature]
    return [*method, unit, "fail", str(len(properties)), *flat, "0"]


def _until_moved(pid: int, unit: str) -> str | None:
    """The answer comes before the move, which nothing else announces to a caller without a bus connection."""
    until = time.monotonic() + _WITHIN
    while f"/{unit}" not in _control_group(pid):
        if time.monotonic() > until:
            return f"{unit} was started without process {pid}"
        time.sleep(0.002)
    return None


def _control_group(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""
