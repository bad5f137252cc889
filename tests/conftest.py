"""Fixtures for all tests."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers.daemon import Daemon
from tests.helpers.needs import User, can_run_python_as


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The daemon runs under asyncio; tests of the client ask for trio, too."""
    return "asyncio"


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """A folder whose path is short enough for socket addresses, as pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="jobd-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


MakeDaemon = Callable[..., Daemon]


@pytest.fixture
def make_daemon(state_dir: Path) -> Iterator[MakeDaemon]:
    """Daemons with configuration, environment or user of their own, not started yet; all are cleared away."""
    made: list[Daemon] = []

    def make(state: Path = state_dir, **options: object) -> Daemon:
        made.append(Daemon(state, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for daemon in made:
        daemon.clear()


@pytest.fixture
def daemon(make_daemon: MakeDaemon) -> Daemon:
    """A daemon that is ready."""
    made = make_daemon()
    made.start()
    return made


@pytest.fixture
def ordinary_user() -> User:
    """Somebody without rights, for tests that run as root."""
    if os.getuid() != 0:
        pytest.skip("needs root")
    return User(65533, 65533)


@pytest.fixture
def user_with_python(ordinary_user: User) -> User:
    """An ordinary user who can run this interpreter."""
    if not can_run_python_as(ordinary_user):
        pytest.skip("needs an interpreter that ordinary users can reach")
    return ordinary_user
