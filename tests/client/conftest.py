"""Every test of the client runs under asyncio and under trio."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop."""
    name: str = request.param
    return name


@pytest.fixture(autouse=True)
def no_autostart(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test starts a daemon unless it asks for that."""
    monkeypatch.setenv("JOBD_NO_AUTOSTART", "1")
