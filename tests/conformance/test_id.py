"""Job ids: cases ID-* of the reference's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobd.model.job import Job, Owner, Tasks
from jobd.model.states import JobState
from jobd.model.status import Waiting
from jobd.model.template import JobTemplate
from jobd.store import Batch, Store

pytestmark = pytest.mark.anyio

WAITING = Waiting(JobState.QUEUED)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(tmp_path) as opened:
        yield opened


def job(number: int) -> Job:
    """A submission."""
    return Job(
        id=number,
        owner=Owner(1000, "somebody"),
        session="default",
        backend="local",
        queue="default",
        template=JobTemplate(remote_command="true"),
        environment=None,
        submission_time=1.0,
        submission_machine="here",
    )


async def test_id_1_a_fresh_store_counts_from_1(store: Store) -> None:
    assert (await store.counters())["job"] == 0
    await store.commit(Batch(jobs=[job(1)], tasks={(1, 0): Tasks(job=1, status=WAITING)}, counters={"job": 1}))
    assert (await store.counters())["job"] == 1


async def test_id_2_an_id_never_comes_back(store: Store) -> None:
    """The reference rolls over to 1; here the counter outlives what it counted."""
    await store.commit(Batch(jobs=[job(1)], tasks={(1, 0): Tasks(job=1, status=WAITING)}, counters={"job": 1}))
    await store.commit(Batch(reaped=[1]))
    assert await store.find(1) is None
    assert (await store.counters())["job"] == 1
