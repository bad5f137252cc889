"""Reading output back: bounded, pushed while it grows, and with nobody's rights but the owner's."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobd.backends.process.blocks import CHUNK, read_chunk, tail_offset
from jobd.inotify import Inotify
from jobd.model.errors import NotFound
from tests.process.desk import Desk, kill

pytestmark = pytest.mark.anyio


@given(st.lists(st.sampled_from([b"", b"a", b"bc", b"x" * 70_000]), max_size=8), st.booleans(), st.integers(0, 9))
def test_the_last_lines_are_those_of_splitlines(lines: list[bytes], closed: bool, wanted: int) -> None:
    data = b"\n".join(lines) + (b"\n" if closed else b"")
    path = Path(f"/tmp/jobd-tail-{os.getpid()}")
    path.write_bytes(data)
    try:
        offset = tail_offset(os.fsencode(path), wanted)
    finally:
        path.unlink()
    parts = data.split(b"\n")
    whole = [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
    assert data[offset:] == b"".join(
        whole[len(whole) - wanted :] if 0 < wanted < len(whole) else whole if wanted else []
    )


async def test_one_very_long_line_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "long"
    with path.open("wb") as file:
        file.write(b"first\n")
        file.truncate(100 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert tail_offset(os.fsencode(path), 1) == 6
    assert len(read_chunk(os.fsencode(path), 6)) == CHUNK
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 * 1024


async def test_only_plain_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path):
        with pytest.raises(OSError, match="plain file"):
            read_chunk(os.fsencode(path), 0)
    assert read_chunk(os.fsencode(tmp_path / "none"), 0) == b""
    assert tail_offset(os.fsencode(tmp_path / "none"), 3) == 0


async def test_output_comes_in_bounded_chunks(desk: Desk) -> None:
    sizes: list[int] = []

    async def sink(chunk: bytes) -> None:
        sizes.append(len(chunk))

    async with desk.daemon() as daemon:
        id = daemon.run("sh", "-c", "head -c 3000000 /dev/zero")
        await desk.end_of(id)
        await daemon.backend.copy_output(desk.job(id), desk.tasks(id), "stdout", None, 0, sink, follow=False)
    assert sum(sizes) == 3_000_000
    assert max(sizes) <= CHUNK


async def test_output_is_pushed_while_it_grows(desk: Desk, tmp_path: Path) -> None:
    got = bytearray()
    script = f"echo one; until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo two"
    async with desk.daemon() as daemon:
        id = daemon.run("sh", "-c", script)

        async def sink(chunk: bytes) -> None:
            got.extend(chunk)
            (tmp_path / "go").touch()

        with anyio.fail_after(10):
            await daemon.backend.copy_output(desk.job(id), desk.tasks(id), "stdout", None, 0, sink, follow=True)
        assert bytes(got) == b"one\ntwo\n"


async def test_following_begins_before_the_start_and_includes_what_comes_after_the_end(desk: Desk) -> None:
    async with desk.daemon(slots=1) as daemon:
        blocker = daemon.run("sleep", "0.2")
        id = daemon.run("sh", "-c", "echo first; (sleep 0.2; echo late) & exit 0")
        assert await daemon.output(id, follow=True) == b"first\nlate\n"
        assert desk.ends(blocker)


async def test_following_a_file_of_the_users(desk: Desk, tmp_path: Path) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("sh", "-c", "echo a; sleep 0.2; echo b", output_path=str(tmp_path / "log"))
        assert await daemon.output(id, follow=True) == b"a\nb\n"


async def test_following_goes_on_when_the_keeper_dies(desk: Desk, tmp_path: Path) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("sh", "-c", f"echo a; until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo b")
        await desk.running(id)
        got: list[bytes] = []

        async def follow() -> None:
            got.append(await daemon.output(id, follow=True))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await kill(daemon.keeper())
            (tmp_path / "go").touch()
        assert got == [b"a\nb\n"]


async def test_offsets_lines_and_attempts(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("sh", "-c", "echo 1; echo 2; echo 3")
        await desk.end_of(id)
        job, tasks = desk.job(id), desk.tasks(id)
        assert await daemon.backend.tail_offset(job, tasks, "stdout", None, 2) == 2
        assert await daemon.output(id, offset=4) == b"3\n"
        assert await daemon.output(id, "stderr") == b""
        with pytest.raises(NotFound):
            await daemon.backend.tail_offset(job, tasks, "stdout", 2, 1)


async def test_joined_and_discarded_output(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        joined = daemon.run("sh", "-c", "echo a; echo b >&2", join_files=True)
        discarded = daemon.run("echo", "x", output_path="/dev/null")
        await desk.end_of(joined)
        await desk.end_of(discarded)
        assert await daemon.output(joined) == b"a\nb\n"
        assert await daemon.output(joined, "stderr") == b""
        assert await daemon.output(discarded) == b""
        assert (await daemon.backend.files(desk.job(joined), desk.tasks(joined)))["stderr"] is None


async def test_a_reader_that_hangs_is_given_up(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobd.backends.process.output._PATIENCE", 0.2)
    slow = tmp_path / "slow.py"
    slow.write_text("import time; time.sleep(60)")
    async with desk.daemon() as daemon:
        id = daemon.run("echo", "x", output_path=str(tmp_path / "out"))
        await desk.end_of(id)
        assert await daemon.output(id) == b"x\n"
        monkeypatch.setattr("jobd.backends.process.output._READER", slow)
        with pytest.raises(NotFound, match="did not answer"):
            await daemon.output(id)


async def test_a_file_that_can_not_be_watched_is_looked_at(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(self: Inotify, path: Path, mask: int) -> object:
        raise OSError(28, "no watch is left")

    monkeypatch.setattr("jobd.backends.process.following._UNPUSHED", 0.05)
    monkeypatch.setattr(Inotify, "watching", none_left)
    async with desk.daemon() as daemon:
        id = daemon.run("sh", "-c", "echo a; sleep 0.2; echo b")
        assert await daemon.output(id, follow=True) == b"a\nb\n"
