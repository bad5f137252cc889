"""Stopping a tree that starts processes all the time."""

from __future__ import annotations

import pytest

from jobd.model.states import JobState
from tests.process.desk import Desk, kill

pytestmark = pytest.mark.anyio

# A shell starts its commands by vfork(2): stopped between that and its exec, a child keeps its parent from stopping.
BUSY = "while :; do /bin/true; done"


async def test_a_busy_tree_stops_with_a_keeper(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("sh", "-c", BUSY)
        await desk.running(id)
        for _ in range(40):
            await daemon.backend.suspend(id)
            assert desk.tasks(id).state is JobState.SUSPENDED
            await daemon.backend.resume(id)


async def test_a_busy_tree_stops_without_a_keeper(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("sh", "-c", BUSY)
        await desk.running(id)
        await kill(daemon.keeper())
        await daemon.followed(1)
        for _ in range(10):
            await daemon.backend.suspend(id)
            await daemon.backend.resume(id)
