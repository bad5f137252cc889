"""A full disk, or a program that holds the database: told as such, nothing is lost, and it works again afterwards."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from jobd.model.errors import OutOfResource
from jobd.model.template import JobTemplate
from jobd.store import Batch, Store
from tests.helpers.needs import needs_root
from tests.store.making import job, submission, waiting

pytestmark = pytest.mark.anyio

LARGE = JobTemplate(remote_command="x" * 100_000)


def large(number: int) -> Batch:
    """A submission that takes room."""
    return submission(job(number, LARGE), first_event=number)


async def fill_up(store: Store, most: int = 1000) -> int:
    """Submit until there is no room; how many were taken."""
    for number in range(1, most):
        try:
            await store.commit(large(number))
        except OutOfResource:
            return number - 1
    pytest.fail("there was always room")


async def expect_jobs(store: Store, count: int) -> None:
    """Those that were taken, and nothing of any other."""
    assert [one.id for one, _ in await store.load_active()] == list(range(1, count + 1))
    assert [one.seq for one in await store.events(0, 10_000)] == list(range(1, count + 1))
    assert (await store.counters())["job"] == count


async def test_a_database_that_must_not_grow(tmp_path: Path) -> None:
    def limit(pages: int) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    async with Store.open(tmp_path) as store:
        connection = store._writing._conn
        await store._writing.run(lambda _: limit(200))
        taken = await fill_up(store)
        assert taken
        await expect_jobs(store, taken)
        with pytest.raises(OutOfResource, match=r"jobd\.db can't be read or written") as caught:
            await store.commit(large(taken + 1))
        assert caught.value.hint == "free some space on its volume"
        await store._writing.run(lambda _: limit(100_000))
        await store.commit(large(taken + 1))
        await expect_jobs(store, taken + 1)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    where = tmp_path / "disk"
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs", where], check=True)
    yield where
    subprocess.run(["umount", where], check=True)


def use_up(disk: Path) -> Path:
    """A file that takes all the room there is left."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12):
            try:
                while file.write(bytes(size)) == size:
                    continue
            except OSError:
                continue
    return ballast


@needs_root
@pytest.mark.root
async def test_a_full_disk(small_disk: Path) -> None:
    async with Store.open(small_disk) as store:
        await store.commit(large(1))
        ballast = use_up(small_disk)
        taken = 1
        with pytest.raises(OutOfResource, match="can't be read or written"):
            while True:
                await store.commit(large(taken + 1))
                taken += 1
        await expect_jobs(store, taken)
        ballast.unlink()
        await store.commit(large(taken + 1))
        await expect_jobs(store, taken + 1)
    async with Store.open(small_disk) as store:
        await expect_jobs(store, taken + 1)


@needs_root
@pytest.mark.root
async def test_a_crash_on_a_full_disk(small_disk: Path, tmp_path: Path) -> None:
    """What was committed before is read from the WAL, though nothing can be written into the database."""
    async with Store.open(tmp_path) as store:
        await store.commit(large(1))
        for name in ("jobd.db", "jobd.db-wal"):
            (small_disk / name).write_bytes((tmp_path / name).read_bytes())
    ballast = use_up(small_disk)
    with pytest.raises(OutOfResource, match=r"jobd\.db"):
        async with Store.open(small_disk) as store:
            await store.commit(large(2))
    ballast.unlink()
    async with Store.open(small_disk) as store:
        await expect_jobs(store, 1)
        await store.commit(large(2))


@needs_root
@pytest.mark.root
async def test_no_room_to_begin(small_disk: Path) -> None:
    ballast = use_up(small_disk)
    with pytest.raises(OutOfResource, match=r"jobd\.db"):
        async with Store.open(small_disk) as store:
            await store.commit(large(1))
    ballast.unlink()
    async with Store.open(small_disk) as store:
        await store.commit(large(1))


async def test_another_program_that_holds_the_database_is_no_fault_of_the_batch(tmp_path: Path) -> None:
    """Somebody's open transaction in sqlite3(1): it is told as what passes, so that reports are kept and told again."""
    async with Store.open(tmp_path) as store:
        await store._writing.run(lambda connection: connection.execute("PRAGMA busy_timeout = 10"))
        with closing(sqlite3.connect(tmp_path / "jobd.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(OutOfResource, match="held by another program"):
                await store.commit(submission(job(1)))
            assert await store.load_active() == []
            other.execute("ROLLBACK")
        await store.commit(submission(job(1)))
        assert await store.load_active() == [(job(1), waiting(1))]
