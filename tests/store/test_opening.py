"""What is opened, what is refused and left as it was, and how an older schema is brought up to date."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from jobd.model.errors import JobdError, UnusableDatabase
from jobd.model.job import Owner
from jobd.model.status import Exited
from jobd.store import Batch, Store, opening
from jobd.store.opening import migrations
from tests.store.making import ended, job, submission, waiting

pytestmark = pytest.mark.anyio

FILE = "jobd.db"


@pytest.fixture
def umask_of_nobody() -> Iterator[None]:
    """The most careless umask that a daemon could be started with."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()}


def contents(folder: Path) -> dict[str, bytes]:
    """Everything that matters of a database; -shm is SQLite's scratch space."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


async def make(folder: Path) -> None:
    """A store with one job."""
    async with Store.open(folder) as store:
        await store.commit(submission(job(1)))


async def make_crashed(folder: Path, where: Path) -> None:
    """The same, as a killed process leaves it: with what was committed in the WAL alone."""
    async with Store.open(where) as store:
        await store.commit(submission(job(1)))
        for name in (FILE, f"{FILE}-wal"):
            shutil.copy(where / name, folder)


async def refused(folder: Path, message: str) -> None:
    """It is refused with a message that names the file, a way out, and leaves all as it was."""
    before = contents(folder)
    with pytest.raises(UnusableDatabase, match=message) as caught:
        async with Store.open(folder):
            pytest.fail("it was opened")
    assert str(folder / FILE) in caught.value.message
    assert caught.value.hint
    assert contents(folder) == before


@pytest.mark.usefixtures("umask_of_nobody")
async def test_nobody_else_can_read_any_file_of_it(tmp_path: Path) -> None:
    async with Store.open(tmp_path) as store:
        await store.commit(submission(job(1)))
        assert modes(tmp_path) == {FILE: "0o600", f"{FILE}-wal": "0o600", f"{FILE}-shm": "0o600"}


@pytest.mark.usefixtures("umask_of_nobody")
async def test_nobody_else_could_read_it_at_any_instant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is made with its mode by open(2) itself, and SQLite is first told of it then."""
    seen: list[dict[str, str]] = []
    connect = sqlite3.connect

    def watched(*args: object, **options: object) -> sqlite3.Connection:
        seen.append(modes(tmp_path))
        return connect(*args, **options)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(sqlite3, "connect", watched)
    await make(tmp_path)
    assert seen
    assert all(mode == "0o600" for look in seen for mode in look.values())
    assert all(FILE in look for look in seen)


async def test_a_store_that_was_closed_is_one_file(tmp_path: Path) -> None:
    await make(tmp_path)
    assert list(modes(tmp_path)) == [FILE]


async def test_a_path_with_signs_that_mean_something_in_a_uri(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a b?mode=memory#%41\xff"))
    folder.mkdir()
    await make(folder)
    async with Store.open(folder) as store:
        assert await store.find(1) == (job(1), [waiting(1)])
    assert list(modes(folder)) == [FILE]


async def test_an_empty_file_is_a_store_whose_maker_was_killed(tmp_path: Path) -> None:
    (tmp_path / FILE).touch(0o600)
    await make(tmp_path)


@pytest.mark.parametrize("after", ["journal_mode", "schema", "meta"])
async def test_a_maker_that_was_killed_is_taken_up(tmp_path: Path, after: str) -> None:
    """At each step of making it, what is there is a store that can be finished."""
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        if after != "journal_mode":
            connection.executescript(f"BEGIN; {migrations()[0][1]} PRAGMA user_version = 1; COMMIT;")
        if after == "meta":
            opening._mark(connection)
    await make(tmp_path)


async def test_what_a_killed_process_left_is_read_from_its_wal(tmp_path: Path, tmp_path_factory: object) -> None:
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    await make_crashed(crashed, tmp_path)
    async with Store.open(crashed) as store:
        assert await store.find(1) == (job(1), [waiting(1)])


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 + 100)


def _no_database(path: Path) -> None:
    path.write_bytes(b"this is no database, but rather long. " * 400)


def _overwrite_tables(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:100] + os.urandom(4096 - 100) + data[4096:])


def _zeros(path: Path) -> None:
    """What some file systems leave of a file after a power failure."""
    path.write_bytes(bytes(path.stat().st_size))


def _hole(path: Path) -> None:
    """Two pages of zeros behind the first."""
    data = path.read_bytes()
    path.write_bytes(data[:4096] + bytes(2 * 4096) + data[3 * 4096 :])


@pytest.mark.parametrize("damage", [_cut, _hole, _no_database, _overwrite_tables, _zeros])
async def test_a_damaged_database_is_refused(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    await make(tmp_path)
    damage(tmp_path / FILE)
    await refused(tmp_path, "is damaged")


async def test_damage_met_later_is_told_clearly(tmp_path: Path) -> None:
    async with Store.open(tmp_path) as store:
        await store.commit(Batch(jobs=[job(number) for number in range(1, 200)]))
        await store.commit(Batch(tasks={(number, 0): waiting(number) for number in range(1, 200)}))
    path = tmp_path / FILE
    data = path.read_bytes()
    # Whatever opening looks at is whole: the first page and the tables of facts and counters.
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'job'").fetchone()
    start = (root - 1) * 4096
    path.write_bytes(data[:start] + b"\xff" * 4096 + data[start + 4096 :])
    async with Store.open(tmp_path) as store:
        with pytest.raises(UnusableDatabase, match=r"jobd\.db is damaged"):
            await store.find(7)
        with pytest.raises(UnusableDatabase, match=r"jobd\.db is damaged"):
            await store.commit(submission(job(200)))
        assert (await store.counters())["job"] == 0


async def _with_sql(folder: Path, sql: str) -> None:
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
        connection.executescript(sql)


async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    await make(tmp_path)
    await _with_sql(tmp_path, "PRAGMA user_version = 4711")
    await refused(tmp_path, "newer jobd.*schema 4711")


async def test_a_newer_schema_in_a_wal_is_refused_and_the_wal_stays(tmp_path: Path) -> None:
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    other = tmp_path / "other"
    other.mkdir()
    await make(other)
    with closing(sqlite3.connect(other / FILE, isolation_level=None)) as connection:
        connection.executescript("PRAGMA journal_mode = WAL; PRAGMA user_version = 4711")
        for name in (FILE, f"{FILE}-wal"):
            shutil.copy(other / name, crashed)
    await refused(crashed, "newer jobd.*schema 4711")
    assert (crashed / f"{FILE}-wal").stat().st_size


@pytest.mark.parametrize("sql", ["CREATE TABLE meta (name, value)", "PRAGMA user_version = 1", "CREATE TABLE a (b)"])
async def test_somebody_else_s_database_is_refused(tmp_path: Path, sql: str) -> None:
    await _with_sql(tmp_path, sql)
    await refused(tmp_path, "not a database of jobd's")


async def test_another_machine_s_store_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await make(tmp_path)
    await _with_sql(tmp_path, "UPDATE meta SET value = 'elsewhere' WHERE name = 'host'")
    monkeypatch.setattr(opening, "machine_id", lambda: "0123abcd")
    await refused(tmp_path, "host elsewhere.*0123abcd")


async def test_another_machine_s_older_store_is_not_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(tmp_path)
    monkeypatch.setattr(opening, "machine_id", lambda: "0123abcd")
    monkeypatch.setattr(opening, "migrations", lambda: [*migrations(), (2, "CREATE TABLE new (a);")])
    await refused(tmp_path, "0123abcd")


async def test_a_store_without_its_machine_is_refused(tmp_path: Path) -> None:
    await make(tmp_path)
    await _with_sql(tmp_path, "DELETE FROM meta WHERE name = 'machine'")
    await refused(tmp_path, "machine None")


async def test_a_store_on_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "network_filesystem", lambda path: "nfs4")
    await refused(tmp_path, "network file system .nfs4.")
    assert list(tmp_path.iterdir()) == []


async def test_a_link_is_not_followed(tmp_path: Path) -> None:
    await make(tmp_path)
    (tmp_path / FILE).rename(tmp_path / "elsewhere.db")
    (tmp_path / FILE).symlink_to("elsewhere.db")
    await refused(tmp_path, "can't be opened for writing")


async def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(UnusableDatabase, match=r"jobd\.db can't be opened for writing"):
        async with Store.open(tmp_path):
            pytest.fail("it was opened")


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anything")
async def test_a_read_only_database_is_refused(tmp_path: Path) -> None:
    await make(tmp_path)
    (tmp_path / FILE).chmod(0o400)
    await refused(tmp_path, "can't be opened for writing")


async def test_a_folder_that_is_not_there_is_an_error_of_jobd_s(tmp_path: Path) -> None:
    with pytest.raises(JobdError, match=r"none/jobd\.db"):
        async with Store.open(tmp_path / "none"):
            pytest.fail("it was opened")


# What each released schema's store holds, written as that release would have: by its SQL, not by today's code.
RELEASED = {
    1: """
INSERT INTO meta (name, value) VALUES ('store', 'abcdef012345'), ('machine', '{machine}'), ('host', 'here');
UPDATE counter SET value = 2 WHERE name = 'job';
UPDATE counter SET value = 3 WHERE name = 'event';
INSERT INTO session VALUES (1000, 'night', 'me', 1.5);
INSERT INTO environment (digest, jobs, content) VALUES ('d', 1, CAST('A=1' AS BLOB));
INSERT INTO job (id, owner_uid, owner_name, session, backend, queue, template, labels, environment, submission_time,
    submission_machine, retry_of)
VALUES
    (1, 1000, 'somebody', 'default', 'local', 'default', '{{"remote_command":"true"}}', NULL, NULL, 1.0, 'here', NULL),
    (2, 1000, 'somebody', 'default', 'local', 'default', '{{"remote_command":"true"}}', NULL, 'd', 2.0, 'here', NULL);
INSERT INTO task (job, first, last, state, attempt, native_id, machines, dispatch_time, finish_time, outcome,
    exit_status)
VALUES (1, 0, 0, 7, 1, '77', 'here', 10.5, 20.25, 'exited', 0);
INSERT INTO task (job, first, last, state, attempt) VALUES (2, 0, 0, 1, 0);
INSERT INTO event (seq, job, first, last, before, after, sub_state, at)
VALUES (1, 1, 0, 0, NULL, 1, NULL, 1.0), (2, 2, 0, 0, NULL, 1, NULL, 2.0), (3, 1, 0, 0, 1, 7, NULL, 3.0);
INSERT INTO request VALUES (1000, 'once', x'00', 1, 1, 1.0);
"""
}


async def make_released(folder: Path, version: int) -> None:
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for number, text in migrations()[:version]:
            connection.executescript(f"BEGIN;\n{text}\nPRAGMA user_version = {number};\nCOMMIT;")
        connection.executescript(RELEASED[version].format(machine=opening.machine_id()))


async def expect_released(store: Store) -> None:
    assert store.store_id == "abcdef012345"
    assert await store.load_active() == [(job(2, environment="d"), waiting(2))]
    assert await store.finished(None, None) == [(job(1), ended(1))]
    assert ended(1).status.outcome == Exited(0)  # type: ignore[union-attr]
    assert [one.seq for one in await store.events(0, 10)] == [1, 2, 3]
    assert await store.environment("d") == b"A=1"
    assert [one.name for one in await store.sessions(1000)] == ["night"]
    assert await store.request(1000, "once") is not None
    assert (await store.find(1) or (job(9), []))[0].owner == Owner(1000, "somebody")


def test_every_schema_is_covered() -> None:
    assert list(RELEASED) == [number for number, _ in migrations()]


@pytest.mark.parametrize("version", RELEASED)
async def test_a_store_of_each_released_schema_opens(tmp_path: Path, version: int) -> None:
    await make_released(tmp_path, version)
    async with Store.open(tmp_path) as store:
        await expect_released(store)
        await store.commit(submission(job(3), first_event=4))
        assert (await store.counters())["job"] == 3


@pytest.mark.parametrize("version", RELEASED)
async def test_migrations_are_taken_one_by_one_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    last = migrations()[-1][0]
    more = [*migrations(), (last + 1, "CREATE TABLE extra (a);"), (last + 2, "INSERT INTO extra VALUES (1);")]
    await make_released(tmp_path, version)
    monkeypatch.setattr(opening, "migrations", lambda: more)
    for _ in range(2):
        async with Store.open(tmp_path) as store:
            await expect_released(store)
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (last + 2,)
        assert connection.execute("SELECT * FROM extra").fetchall() == [(1,)]


async def test_a_migration_that_fails_leaves_the_schema_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = migrations()[-1][0]
    more = [
        *migrations(),
        (last + 1, "CREATE TABLE good (a);"),
        (last + 2, "CREATE TABLE half (a); CREATE TABLE job (a);"),
    ]
    await make_released(tmp_path, last)
    with monkeypatch.context() as patched:
        patched.setattr(opening, "migrations", lambda: more)
        with pytest.raises(JobdError, match="table job already exists"):
            async with Store.open(tmp_path):
                pytest.fail("it was opened")
        patched.setattr(opening, "migrations", lambda: more[:-1])
        async with Store.open(tmp_path) as store:
            await expect_released(store)
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (last + 1,)
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        assert "good" in names
        assert "half" not in names
