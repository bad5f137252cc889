"""How the keeper puts itself in order, once, at its start: what it is then is what its jobs inherit."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_CHILD_SUBREAPER = 36
_KEYCTL_JOIN_SESSION_KEYRING = 1
_DESCRIPTORS = 1 << 20
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}

IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores these, and so the keeper does: it must not die of a broken pipe. Its jobs get the default back."""


HANDLED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""These have a handler in the keeper, all others are at their default from its start on."""


def put_in_order() -> None:
    """Leave behind whatever the daemon's start brought along."""
    os.closerange(3, _DESCRIPTORS)
    os.chdir("/")
    os.umask(0o077)
    _become_subreaper()
    _reset_signals()
    _reset_scheduling()
    _leave_keyring()


def _become_subreaper() -> None:
    """Daemonised grandchildren stay below the keeper and are reaped by it (PR_SET_CHILD_SUBREAPER, prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reset_signals() -> None:
    """nohup ignores SIGHUP, a shell's ``&`` SIGINT and SIGQUIT: an ignored signal would stay so in every job."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, *IGNORED_BY_PYTHON}:
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            continue
    for number in HANDLED:
        # A handler, not SIG_IGN: exec resets it. A stray pkill must not make orphans of all jobs.
        signal.signal(number, _nothing)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _nothing(number: int, frame: object) -> None:
    """Take a signal and do nothing."""


def _reset_scheduling() -> None:
    """Nice value, CPU affinity and OOM score, each as far as the kernel lets an ordinary user."""
    for reset in (_reset_nice, _reset_affinity, _reset_oom_score):
        try:
            reset()
        except OSError:
            continue


def _reset_nice() -> None:
    os.setpriority(os.PRIO_PROCESS, 0, 0)


def _reset_affinity() -> None:
    os.sched_setaffinity(0, range(os.cpu_count() or 1))


def _reset_oom_score() -> None:
    _write("/proc/self/oom_score_adj", b"0")


def _leave_keyring() -> None:
    """A session keyring of its own (keyctl(2)): the login's keys are not the jobs'."""
    number = _KEYCTL.get(os.uname().machine)
    if number is not None:
        ctypes.CDLL(None).syscall(number, _KEYCTL_JOIN_SESSION_KEYRING, None)


def _write(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
