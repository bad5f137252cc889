"""Starting a user's own daemon, as tmux does its server: detached, with nothing of the caller's in its hands.

A process between caller and daemon checks first that the daemon can start, so that what is wrong is said to the caller,
and leaves the daemon an orphan, so that nobody has to wait for it.
"""

from __future__ import annotations

import os
import sys

from jobd.model.errors import DrmCommunication, JobdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobd.paths import Place

_NOT_INHERITED = (
    "JOBD_TOKEN",
    "JOBD_JOB_ID",
    "JOBD_TASK_ID",
    "JOBD_ATTEMPT",
    "JOBD_SESSION",
    "JOBD_QUEUE",
    "NOTIFY_SOCKET",
    "JOBD_AUTOSTARTED",
)

_MARK = "JOBD_AUTOSTARTED"
_LISTENING = b"\0"
"""What a daemon that listens says last: a pipe that just closes may be one that has died."""


def start(place: Place) -> None:
    """Start the daemon of a place; that another one was quicker is no error. Returns before it answers. Blocking.

    Raises:
        DrmCommunication: it can't start; says why.
    """
    import subprocess

    environ = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    done = subprocess.run(
        [sys.executable, "-m", "jobd.autostart", os.fspath(place.state_dir)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environ,
        cwd="/",
        check=False,
    )
    if done.returncode:
        why = done.stderr.decode("utf-8", "backslashreplace").strip() or f"exit status {done.returncode}"
        raise DrmCommunication(f"the daemon could not be started: {why}", hint="jobd serve runs it in the foreground")


def main(state_dir: str) -> int:
    """The process in between: check, detach, and become the daemon."""
    from jobd import config, paths, scope

    try:
        place = paths.for_daemon(os.environ, state_dir)
        paths.ensure_private_folder(place.state_dir)
        config.load(paths.config_path(os.environ, None, place))
    except JobdError as error:
        sys.stderr.write(error.message + (f"; {error.hint}" if error.hint else ""))
        return 1
    reading, writing = os.pipe()
    daemon = os.fork()
    if daemon == 0:
        _detach(writing)
        # Out of the login session, which may end everything in it; where that can't be had it stays.
        scope.own_scope(os.getpid(), "jobd-daemon")
        os.environ[_MARK] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "jobd", "serve", "--state-dir", state_dir])
    os.close(writing)
    return _told(daemon, reading)


def _told(daemon: int, reading: int) -> int:
    """Wait until the daemon listens, and lets go of its stderr, or fails: then pass on what it said."""
    said = b""
    while part := os.read(reading, 4096):
        said += part
    if said.endswith(_LISTENING):
        return 0
    # It closed its stderr by ending. One that found another daemon there already has ended well.
    _, status = os.waitpid(daemon, 0)
    if status:
        os.write(2, said)
    return int(status != 0)


def _detach(stderr: int) -> None:
    """A session of its own, and /dev/null for what is the caller's: else ``x=$(jobd submit ...)`` would hang."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number, target in ((0, null), (1, null), (2, stderr)):
        os.dup2(target, number)
    os.closerange(3, 1 << 16)


def is_autostarted(environ: Mapping[str, str]) -> bool:
    """Whether this daemon was started by a client."""
    return _MARK in environ


def let_go(environ: Mapping[str, str]) -> None:
    """In a daemon that was started so: it listens, and has nothing more to say to who started it."""
    if is_autostarted(environ):
        os.write(2, _LISTENING)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 2)
        os.close(null)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
