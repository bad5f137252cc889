"""Waiting for what announces itself to nobody: a bounded look, again and again. Elsewhere nothing polls."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")

_INTERVAL = 0.01


def eventually(look: Callable[[], T], what: str, timeout: float = 10) -> T:
    """The first true value of ``look``; an AssertionError says what did not come about in time."""
    until = time.monotonic() + timeout
    while not (found := look()):
        assert time.monotonic() < until, f"not within {timeout:g} s: {what}"
        time.sleep(_INTERVAL)
    return found


async def eventually_async(look: Callable[[], Awaitable[T]], what: str, timeout: float = 10) -> T:
    """As ``eventually``, for what has to be awaited."""
    until = time.monotonic() + timeout
    while not (found := await look()):
        assert time.monotonic() < until, f"not within {timeout:g} s: {what}"
        await anyio.sleep(_INTERVAL)
    return found


def wait_gone(pid: int, timeout: float = 10) -> None:
    """Wait until a process has ended, whosever child it is; one that is not there has."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ended, _, _ = select.select([descriptor], [], [], timeout)
    finally:
        os.close(descriptor)
    assert ended, f"process {pid} did not end within {timeout:g} s"
