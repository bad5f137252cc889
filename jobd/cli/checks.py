"""The checks of ``jobd doctor``: each is a small function that returns what it found."""

from __future__ import annotations

import argparse
import os
import resource
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from jobd import config, paths
from jobd.cli.connection import Daemon
from jobd.model.errors import JobdError


class Finding(NamedTuple):
    """``level`` is ok, note or wrong; ``text`` says what to do where something is to be done."""

    level: str
    about: str
    text: str


Check = Callable[[argparse.Namespace, paths.Place], Iterable[Finding]]


def examine(options: argparse.Namespace) -> list[Finding]:
    """All checks, in order."""
    place = paths.find(os.environ, options.socket)
    checks: list[Check] = [
        _state,
        _filesystem,
        _room,
        _configuration,
        _daemon,
        _descriptors,
        _kernel,
        _nice,
        _logout,
    ]
    return [finding for check in checks for finding in check(options, place)]


def _state(options: argparse.Namespace, place: paths.Place) -> Iterable[Finding]:
    folder = place.state_dir
    if not folder.exists():
        yield Finding("ok", "state", f"{folder} is not there yet: the first daemon makes it")
        return
    mode = folder.stat().st_mode & 0o777
    if folder.stat().st_uid not in (os.getuid(), 0):
        yield Finding("wrong", "state", f"{folder} belongs to another user: choose another with JOBD_STATE_DIR")
    elif mode & 0o022:
        yield Finding("wrong", "state", f"others can write {folder}: chmod 700 {folder}")
    else:
        yield Finding("ok", "state", f"{folder}, mode {mode:o}")


def _filesystem(options: argparse.Namespace, place: paths.Place) -> Iterable[Finding]:
    kind = paths.network_filesystem(place.state_dir)
    if kind:
        yield Finding(
            "wrong",
            "file system",
            f"{place.state_dir} is on {kind}: choose a local folder with JOBD_STATE_DIR",
        )
    if place.note:
        yield Finding("note", "file system", place.note)


def _room(options: argparse.Namespace, place: paths.Place) -> Iterable[Finding]:
    existing = next(folder for folder in (place.state_dir, *place.state_dir.parents) if folder.exists())
    usage = shutil.disk_usage(existing)
    floor = min(256 << 20, usage.total // 20)
    level = "ok" if usage.free >= floor else "wrong"
    todo = "" if level == "ok" else ": below the floor nothing new is started; free some space"
    yield Finding(level, "room", f"{usage.free >> 20} MiB are free, {floor >> 20} MiB must stay free{todo}")


def _configuration(options: argparse.Namespace, place: paths.Place) -> Iterable[Finding]:
    path = paths.config_path(os.environ, None, place)
    try:
        config.load(path)
    except JobdError as error:
        yield Finding("wrong", "configuration", f"{error.message}; {error.hint or 'mend the file'}")
    else:
        yield Finding(
            "ok",
            "configuration",
            f"{path}{'' if path.exists() else ' is not there: the defaults are in force'}",
        )


def _daemon(options: argparse.Namespace, place: paths.Place) -> Iterable[Finding]:
    try:
        status = Daemon(options, autostart=False).request("status", {}, patience=1.0)
    except JobdError as error:
        yield Finding("note", "daemon", f"{error.message}; {error.hint}")
        return
    from jobd import __version__

    yield Finding("ok", "daemon", f"jobd {status['version']}, up {status['uptime']:.0f} s, at {status['socket']}")
    if status["version"] != __version__:
        yield Finding("note", "daemon", f"this command is jobd {__version__}: restart the daemon (jobd shutdown)")
    for backend in status["backends"]:
        if not backend["ok"]:
            yield Finding("wrong", f"backend {backend['name']}", backend["last_error"])


def _descriptors(options: argparse.Namespace, place: paths.Place) -> Iterable[Finding]:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < 4096:
        yield Finding(
            "note", "descriptors", f"the hard limit is {hard}: a client takes one each; raise it (ulimit -Hn)"
        )


def _kernel(options: argparse.Namespace, place: paths.Place) -> Iterable[Finding]:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        yield Finding("wrong", "kernel", "pidfd_open does not work: Linux 5.3 or newer is needed")
        return
    release = os.uname().release
    major, minor = (int(part) for part in release.split(".")[:2])
    told = (
        "also for jobs whose keeper was killed"
        if (major, minor) >= (6, 15)
        else "but not always after a keeper's death"
    )
    yield Finding("ok", "kernel", f"Linux {release}: exit statuses are kept, {told}")


def _nice(options: argparse.Namespace, place: paths.Place) -> Iterable[Finding]:
    value = os.getpriority(os.PRIO_PROCESS, 0)
    if value > 0 and os.getuid() != 0:
        yield Finding("note", "nice", f"a daemon started from here has nice {value}, which its jobs inherit")


def _logout(options: argparse.Namespace, place: paths.Place) -> Iterable[Finding]:
    """systemd may end everything of a user at logout (KillUserProcesses, logind.conf(5)) unless the user lingers."""
    if place.system or not Path("/run/systemd/system").exists() or os.getuid() == 0:
        return
    import pwd

    name = pwd.getpwuid(os.getuid()).pw_name
    if Path(f"/var/lib/systemd/linger/{name}").exists():
        return
    if _kills_at_logout():
        yield Finding("wrong", "logout", "KillUserProcesses ends daemon and jobs at logout: loginctl enable-linger")
    else:
        yield Finding("note", "logout", "you do not linger: the user manager's services end with the last logout")


def _kills_at_logout() -> bool:
    files = [Path("/etc/systemd/logind.conf"), *sorted(Path("/etc/systemd/logind.conf.d").glob("*.conf"))]
    value = "no"
    for file in files:
        try:
            lines = file.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            if line.strip().startswith("KillUserProcesses="):
                value = line.split("=", 1)[1].strip()
    return value.lower() in ("yes", "true", "1", "on")
