"""The store's threads never keep a process alive, and a killed process loses nothing that it was told is kept."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from jobd.store import Store
from jobd.store.connection import Connection
from tests.store.making import job, waiting

ROOT = Path(__file__).parents[2]

PROLOGUE = """
import asyncio, os, signal, sys
from pathlib import Path
import anyio
from jobd.store import Batch, Store, store as module
from tests.store.making import job, submission
folder = Path(sys.argv[1])
"""

LEFT = "left open in a loop that is closed"
WAYS_OUT = {
    "by the way it is meant": (
        """
        async def main():
            async with Store.open(folder) as store:
                await store.commit(submission(job(1)))
        asyncio.run(main())
    """,
        0,
        "",
    ),
    "an error in the body": (
        """
        async def main():
            async with Store.open(folder) as store:
                raise ZeroDivisionError
        asyncio.run(main())
    """,
        1,
        "ZeroDivisionError",
    ),
    "an exit in the body": (
        """
        async def main():
            async with Store.open(folder) as store:
                sys.exit(3)
        asyncio.run(main())
    """,
        3,
        "",
    ),
    "an interrupt": (
        """
        async def main():
            async with Store.open(folder) as store:
                os.kill(os.getpid(), signal.SIGINT)
                await anyio.sleep_forever()
        asyncio.run(main())
    """,
        -2,
        "KeyboardInterrupt",
    ),
    "the writer can't open": (
        """
        import sqlite3
        def broken(path):
            def connect():
                raise sqlite3.OperationalError("no")
            return module.Connection(connect, 64)
        module.writer = broken
        async def main():
            async with Store.open(folder) as store:
                pass
        asyncio.run(main())
    """,
        1,
        "jobd.model.errors.Internal",
    ),
    "the reader can't open": (
        """
        import sqlite3
        def broken(path):
            def connect():
                raise sqlite3.OperationalError("no")
            return module.Connection(connect, 64)
        module.reader = broken
        async def main():
            async with Store.open(folder) as store:
                pass
        asyncio.run(main())
    """,
        1,
        "jobd.model.errors.Internal",
    ),
    "refused after it was made": (
        """
        async def main():
            async with Store.open(folder):
                pass
            (folder / "jobd.db").write_bytes(b"no database" * 1000)
            async with Store.open(folder):
                pass
        asyncio.run(main())
    """,
        1,
        "jobd.model.errors.UnusableDatabase",
    ),
    "cancelled before it is open": (
        """
        async def main():
            with anyio.CancelScope() as scope:
                scope.cancel()
                async with Store.open(folder):
                    pass
            async def opening():
                async with Store.open(folder):
                    await anyio.sleep_forever()
            for pause in range(30):
                with anyio.move_on_after(pause / 2000):
                    await opening()
        asyncio.run(main())
    """,
        0,
        "",
    ),
    "cancelled in a commit": (
        """
        async def main():
            async with Store.open(folder) as store:
                task = asyncio.create_task(store.commit(submission(job(1))))
                await asyncio.sleep(0)
                task.cancel()
                raise ZeroDivisionError
        asyncio.run(main())
    """,
        1,
        "ZeroDivisionError",
    ),
    "left open": (
        """
        async def main():
            opened = Store.open(folder)
            store = await opened.__aenter__()
            await store.commit(submission(job(1)))
        asyncio.run(main())
    """,
        0,
        "",
    ),
    LEFT: (
        """
        loop = asyncio.new_event_loop()
        opened = Store.open(folder)
        store = loop.run_until_complete(opened.__aenter__())
        loop.close()
    """,
        0,
        "",
    ),
}


def command(script: str, folder: Path) -> list[str]:
    return [sys.executable, "-W", "default::ResourceWarning", "-c", PROLOGUE + textwrap.dedent(script), str(folder)]


ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_the_process_ends(tmp_path: Path, way: str) -> None:
    script, code, last_words = WAYS_OUT[way]
    done = subprocess.run(
        command(script, tmp_path), env=ENVIRONMENT, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == code, done.stderr
    assert done.stderr.rpartition("\n")[0].rpartition("\n")[2].startswith(last_words), done.stderr
    assert "Exception in thread" not in done.stderr
    if way != LEFT:
        assert "ResourceWarning" not in done.stderr


@pytest.mark.anyio
async def test_a_connection_that_did_not_open_has_no_thread_left() -> None:
    """It would answer to a loop that may be closed by then."""

    def refuse() -> sqlite3.Connection:
        raise sqlite3.OperationalError("no")

    for _ in range(50):
        connection = Connection(refuse, 64)
        with pytest.raises(sqlite3.OperationalError):
            await connection.__aenter__()
        assert not connection._thread.is_alive()


BUSY = """
    async def main():
        async with Store.open(folder) as store:
            for number in range(1, 1_000_000):
                batch = submission(job(2 * number - 1), job(2 * number), first_event=2 * number - 1)
                await store.commit(batch)
                print(number, flush=True)
    asyncio.run(main())
"""


@pytest.mark.crash
@pytest.mark.anyio
@pytest.mark.parametrize("commits", [1, 40, 400])
async def test_what_was_committed_outlives_a_kill(tmp_path: Path, commits: int) -> None:
    with subprocess.Popen(command(BUSY, tmp_path), env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(commits):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        told = commits + len(process.stdout.readlines())
    assert process.returncode == -signal.SIGKILL
    async with Store.open(tmp_path) as store:
        found = await store.load_active()
        # The one in flight is there whole or not at all.
        assert len(found) in (2 * told, 2 * told + 2)
        assert found == [(job(number), waiting(number)) for number in range(1, len(found) + 1)]
        assert [one.seq for one in await store.events(0, 10_000)] == list(range(1, len(found) + 1))
        counters = await store.counters()
        assert (counters["job"], counters["event"]) == (len(found), len(found))
