"""The slow way: a plain fork, and everything that touches a user's path done by the child.

It may hang in any of its steps; it hangs alone, and TERM ends it, since its dispositions are reset first.
"""

from __future__ import annotations

import errno
import os
import resource
import signal

from jobd.backends.process.keeper.order import HANDLED, IGNORED_BY_PYTHON
from jobd.backends.process.keeper.records import text
from jobd.backends.process.keeper.spawn import flags, make_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_NULL = b"/dev/null"


class Failed(Exception):
    """A step could not be done."""

    def __init__(self, step: str, error: OSError) -> None:
        super().__init__(step)
        self.step = step
        self.code = errno.errorcode.get(error.errno or 0, "EIO")


def become_job(spec: dict[str, Any], env: dict[bytes, bytes], error_pipe: int) -> NoReturn:
    """Turn this forked child into the job. Reports a failed step as ``step:errno`` over the pipe, and exits.

    The pipe closes at the exec, which tells the keeper that it went well.
    """
    try:
        _reset_signals()
        os.setsid()
        _prepare(spec)
        _execute(spec, env)
    except Failed as failed:
        os.write(error_pipe, f"{failed.step}:{failed.code}".encode())
    except OSError as error:
        os.write(error_pipe, f"exec:{errno.errorcode.get(error.errno or 0, 'EIO')}".encode())
    finally:
        os._exit(127)


def _reset_signals() -> None:
    for number in (*HANDLED, *IGNORED_BY_PYTHON):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _prepare(spec: dict[str, Any]) -> None:
    """Everything but the exec. jobd's own files are opened before the job becomes its owner, the user's after it."""
    kept = {name: _open_own(spec, name) for name in ("stdout", "stderr") if spec[name] and spec[name].get("own")}
    if spec.get("own_stdin"):
        kept["stdin"] = _step("stdin", lambda: os.open(text(spec["stdin"]), os.O_RDONLY))
    _step("limits", lambda: _set_limits(spec.get("limits") or {}))
    if spec.get("nice") is not None:
        _step("nice", lambda: _set_nice(spec["nice"]))
    if spec.get("uid") is not None:
        _step("identity", lambda: _become(spec))
    os.umask(spec["umask"])
    _step("chdir", lambda: os.chdir(text(spec["cwd"])))
    _redirect(spec, kept)


def _redirect(spec: dict[str, Any], kept: dict[str, int]) -> None:
    source = text(spec["stdin"] or _NULL)
    _put(0, kept.get("stdin", -1), "stdin", lambda: os.open(source, os.O_RDONLY | os.O_NOCTTY))
    for number, name in ((1, "stdout"), (2, "stderr")):
        target = spec[name]
        if target is None:
            os.dup2(1, 2)
            continue
        _put(
            number,
            kept.get(name, -1),
            name,
            lambda target=target: os.open(text(target["path"]), flags(target), 0o666),
        )


def _put(number: int, descriptor: int, step: str, opened: Any) -> None:
    found = descriptor if descriptor >= 0 else _step(step, opened)
    os.dup2(found, number)
    if found > 2:
        os.close(found)


def _open_own(spec: dict[str, Any], name: str) -> int:
    """A captured file: made for the job's owner, who must be able to open it again by /dev/stdout."""
    target = spec[name]
    path = text(target["path"])

    def opened() -> int:
        make_folder(path)
        descriptor = os.open(path, flags(target) | os.O_NOFOLLOW, 0o600)
        os.fchmod(descriptor, 0o600)
        if spec.get("uid") is not None:
            os.fchown(descriptor, spec["uid"], spec["gid"])
        return descriptor

    return int(_step(name, opened))


def _set_limits(limits: dict[str, list[int]]) -> None:
    for name, (soft, hard) in limits.items():
        number: int = getattr(resource, name)
        resource.setrlimit(number, (soft, hard))


def _set_nice(value: int) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, value)
    # A session is an autogroup (sched(7)), between which nice has no effect: the group's own value has.
    try:
        descriptor = os.open("/proc/self/autogroup", os.O_WRONLY)
    except OSError:
        return
    try:
        os.write(descriptor, str(value).encode())
    except OSError:
        return
    finally:
        os.close(descriptor)


def _become(spec: dict[str, Any]) -> None:
    os.setgroups(spec["groups"])
    os.setgid(spec["gid"])
    os.setuid(spec["uid"])


def _execute(spec: dict[str, Any], env: dict[bytes, bytes]) -> None:
    argv = [text(argument) for argument in spec["argv"]]
    denied: OSError = FileNotFoundError(errno.ENOENT, "not found")
    for candidate in candidates(text(spec.get("exe") or spec["argv"][0]), env):
        try:
            os.execve(candidate, argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            # As execvp(3) does: a later folder may have one that may be executed; else this is what is said.
            denied = error
    raise Failed("exec", denied)


def candidates(program: bytes, env: dict[bytes, bytes]) -> list[bytes]:
    """The paths to try, as execvp(3) does: by the job's own PATH unless the name has a slash."""
    if b"/" in program:
        return [program]
    folders = env.get(b"PATH", b"/usr/local/bin:/usr/bin:/bin").split(b":")
    return [os.path.join(folder or b".", program) for folder in folders]


def _step(name: str, work: Any) -> Any:
    try:
        return work()
    except (OSError, ValueError) as error:
        raise Failed(name, error if isinstance(error, OSError) else OSError(errno.EINVAL, str(error))) from error
