"""Starting a job: the fast way for plain local files, the slow way for everything else."""

from __future__ import annotations

import os
import time

from jobd.backends.process.keeper.order import IGNORED_BY_PYTHON
from jobd.backends.process.keeper.records import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")
OUT = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOCTTY
_NULL = b"/dev/null"


def tick_now() -> int:
    """The kernel's clock tick since boot, as in field 22 of proc_pid_stat(5)."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS)


def environment(spec: dict[str, Any], envs: dict[str, list[bytes]]) -> dict[bytes, bytes]:
    """The job's environment: the stored one, then what is its own."""
    entries = envs[spec["env"]] + [text(entry) for entry in spec.get("add", ())]
    return dict(entry.split(b"=", 1) for entry in entries)


def flags(target: dict[str, Any]) -> int:
    """How an output file is opened."""
    return OUT | os.O_TRUNC if target.get("trunc") else OUT


def make_folder(path: bytes) -> None:
    """The folder of a captured file, in jobd's own state folder."""
    folder = os.path.dirname(path)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except FileNotFoundError:
        os.makedirs(folder, 0o700, exist_ok=True)


class FastWay:
    """posix_spawn(3), by vfork: for programs, folders and files that the daemon found local and plain.

    What posix_spawn lacks, working directory and umask, is the keeper's own for an instant; it is single-threaded.
    """

    def __init__(self) -> None:
        self._cwd = b"/"

    def spawn(self, spec: dict[str, Any], env: dict[bytes, bytes]) -> int:
        """Start a job; its pid.

        Raises:
            OSError: it could not be started; which step failed is not known.
        """
        argv = [text(argument) for argument in spec["argv"]]
        actions = self._files(spec)
        self._enter(text(spec["cwd"]))
        before = os.umask(spec["umask"])
        try:
            return os.posix_spawn(
                text(spec["exe"]),
                argv,
                env,
                file_actions=actions,
                setsid=True,
                setsigmask=(),
                setsigdef=IGNORED_BY_PYTHON,
            )
        finally:
            os.umask(before)

    def leave(self) -> None:
        """Go back to the root, so that no user's folder is held busy."""
        self._enter(b"/")

    def _enter(self, folder: bytes) -> None:
        if folder != self._cwd:
            os.chdir(folder)
            self._cwd = folder

    def _files(self, spec: dict[str, Any]) -> list[tuple[Any, ...]]:
        out, err = spec["stdout"], spec["stderr"]
        actions: list[tuple[Any, ...]] = [
            (os.POSIX_SPAWN_OPEN, 0, text(spec["stdin"] or _NULL), os.O_RDONLY, 0),
            self._output(1, out),
        ]
        actions.append((os.POSIX_SPAWN_DUP2, 1, 2) if err is None else self._output(2, err))
        return actions

    def _output(self, number: int, target: dict[str, Any]) -> tuple[Any, ...]:
        path = text(target["path"])
        if target.get("own"):
            make_folder(path)
            return (os.POSIX_SPAWN_OPEN, number, path, flags(target), 0o600)
        return (os.POSIX_SPAWN_OPEN, number, path, flags(target), 0o666)
