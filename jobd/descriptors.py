"""The daemon's own limit on open files, which it raises, and the one it was started with, which its jobs get."""

from __future__ import annotations

import resource

_ORIGINAL = resource.getrlimit(resource.RLIMIT_NOFILE)


def raise_own_limit() -> None:
    """As many descriptors as the hard limit allows: a client and a followed job take one each."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (_ORIGINAL[1], _ORIGINAL[1]))


def restore_limit(pid: int) -> None:
    """Give a process that was just started the soft limit that this one was started with (prlimit(2))."""
    hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
    soft = _ORIGINAL[0] if hard == resource.RLIM_INFINITY or 0 <= _ORIGINAL[0] < hard else hard
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
