"""What a database must be before it is used; one that must not be used is left as it is."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from jobd.model.errors import DrmCommunication
from jobd.model.states import JobState
from jobd.store import Store
from jobd.store.opening import migrations, newest_version
from tests.helpers.needs import needs_root

pytestmark = pytest.mark.anyio

OLD_JOB = (
    "INSERT INTO job VALUES (7, 1000, 'somebody', 'default', 'local', 'default', "
    "'{\"remote_command\": \"true\"}', NULL, NULL, 1.5, 'here', NULL)"
)
OLD_TASK = (
    "INSERT INTO task (job, first, last, state, attempt, granted_to, native_id, machines, dispatch_time) "
    "VALUES (7, 0, 0, 3, 1, '1-1', '4711', 'here', 2.5)"
)


def released(version: int, path: Path) -> None:
    """A database as the release with that schema left it, with a running job."""
    with closing(sqlite3.connect(path)) as connection:
        for number, text in migrations():
            if number <= version:
                connection.executescript(text)
                connection.execute(f"PRAGMA user_version = {number}")
        connection.execute(OLD_JOB)
        connection.execute(OLD_TASK)
        connection.execute("UPDATE counter SET value = 7 WHERE name = 'job'")
        connection.commit()


@pytest.mark.parametrize("version", range(1, newest_version() + 1))
async def test_every_released_schema_is_brought_up_to_date(tmp_path: Path, version: int) -> None:
    released(version, tmp_path / "jobd.db")
    async with Store.open(tmp_path) as store:
        ((job, tasks),) = await store.load_active()
        assert (job.id, job.template.remote_command) == (7, "true")
        assert (tasks.state, getattr(tasks.status, "native_id", None)) == (JobState.RUNNING, "4711")
        assert (await store.counters())["job"] == 7


def test_migrations_are_numbered_without_a_gap() -> None:
    assert [number for number, _ in migrations()] == list(range(1, newest_version() + 1))


async def test_the_file_is_private_from_the_first_instant(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with Store.open(tmp_path) as store:
            await store.generation()
            modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"jobd.db": 0o600, "jobd.db-wal": 0o600, "jobd.db-shm": 0o600}


async def refused(folder: Path, words: str) -> None:
    """Opening is refused with these words, and the file is left as it was."""
    before = (folder / "jobd.db").read_bytes()
    with pytest.raises(DrmCommunication, match=words) as caught:
        async with Store.open(folder):
            pass
    assert str(folder / "jobd.db") in caught.value.message
    assert caught.value.hint
    assert (folder / "jobd.db").read_bytes() == before


async def test_a_damaged_one(tmp_path: Path) -> None:
    (tmp_path / "jobd.db").write_bytes(b"this is no database, but long enough to be looked at" * 100)
    await refused(tmp_path, "damaged")


async def test_one_with_a_hole_in_it(tmp_path: Path) -> None:
    async with Store.open(tmp_path):
        pass
    data = bytearray((tmp_path / "jobd.db").read_bytes())
    data[4096 : 4096 * 3] = bytes(4096 * 2)
    (tmp_path / "jobd.db").write_bytes(data)
    await refused(tmp_path, "damaged")


async def test_a_foreign_one(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "jobd.db")) as connection:
        connection.execute("CREATE TABLE somebody_elses (x)")
        connection.commit()
    await refused(tmp_path, "not a database of jobd's")


async def test_a_newer_one(tmp_path: Path) -> None:
    async with Store.open(tmp_path):
        pass
    with closing(sqlite3.connect(tmp_path / "jobd.db")) as connection:
        connection.execute("PRAGMA user_version = 999")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    await refused(tmp_path, "newer jobd")


async def test_another_machine_s(tmp_path: Path) -> None:
    async with Store.open(tmp_path):
        pass
    with closing(sqlite3.connect(tmp_path / "jobd.db")) as connection:
        connection.execute("UPDATE meta SET value = 'elsewhere' WHERE name IN ('machine', 'host')")
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    await refused(tmp_path, "belongs to host elsewhere")


@needs_root
async def test_one_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").touch()
    (tmp_path / "jobd.db").symlink_to(tmp_path / "real")
    with pytest.raises(DrmCommunication):
        async with Store.open(tmp_path):
            pass


def test_an_error_with_the_store_open_leaves_no_thread_behind(tmp_path: Path) -> None:
    """aiosqlite's thread keeps a process alive if a connection is left open on an error path."""
    script = (
        "import anyio, sys\nfrom pathlib import Path\nfrom jobd.store import Store\n"
        "async def main():\n"
        "    async with Store.open(Path(sys.argv[1])) as store:\n"
        "        await store.generation()\n"
        "        raise RuntimeError('on purpose')\n"
        "anyio.run(main)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, timeout=30, check=False)
    assert done.returncode == 1
    assert b"on purpose" in done.stderr
