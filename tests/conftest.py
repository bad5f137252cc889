"""Fixtures for all tests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The daemon runs under asyncio; tests of the client ask for trio, too."""
    return "asyncio"


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """A folder whose path is short enough for socket addresses, as pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="jobd-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)
