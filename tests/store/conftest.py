"""Stores in folders of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobd.store import Store
from jobd.store import store as store_module


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store."""
    async with Store.open(tmp_path) as opened:
        yield opened


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of retention that a handful of jobs meets."""
    monkeypatch.setattr(store_module, "_STEP", 3)
    monkeypatch.setattr(store_module, "_LOOK", 4)
    monkeypatch.setattr(store_module, "_SPARE_EVENTS", 2)
