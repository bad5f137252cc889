"""Jobs through the whole backend, with a real keeper."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobd.backends.base import EndedSeen, Observation, RefusedSeen, StartedSeen
from jobd.backends.process.keeper.keeper import milliseconds
from jobd.model.errors import InvalidState, NotFound, OutOfResource
from jobd.model.job import Owner
from jobd.model.states import JobState
from jobd.model.status import Exited, NotStarted, Signalled, Waiting
from jobd.model.template import to_text
from tests.helpers.needs import needs_root
from tests.process.desk import Desk, alive, gone

pytestmark = pytest.mark.anyio


@pytest.fixture
def nobodys() -> Iterator[Path]:
    """A folder of the user nobody, that he can reach: pytest's own can't be."""
    folder = Path(tempfile.mkdtemp(prefix="jobd-", dir="/tmp"))
    shutil.chown(folder, 65534, 65534)
    yield folder
    shutil.rmtree(folder)


async def test_output_and_exit_status_of_a_job(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("sh", "-c", "echo out; echo err >&2; exit 3")
        ended = await desk.end_of(id)
        assert (ended.outcome, ended.state) == (Exited(3), JobState.FAILED)
        assert ended.wallclock_time is not None
        assert ended.wallclock_time >= 0
        assert ended.usage.user_time is not None
        assert await daemon.output(id) == b"out\n"
        assert await daemon.output(id, "stderr") == b"err\n"


async def test_a_signal_is_named(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        ended = await desk.end_of(daemon.run("sh", "-c", "kill -USR1 $$"))
        assert ended.outcome == Signalled("SIGUSR1")


@pytest.mark.parametrize(
    ("template", "step", "error"),
    [
        ({}, "exec", "ENOENT"),
        ({"working_directory": "/nowhere"}, "chdir", "ENOENT"),
        ({"input_path": "/nowhere/input"}, "stdin", "ENOENT"),
        ({"output_path": "/nowhere/output"}, "stdout", "ENOENT"),
    ],
)
async def test_a_start_that_fails_says_where(desk: Desk, template: dict[str, Any], step: str, error: str) -> None:
    async with desk.daemon() as daemon:
        ended = await desk.end_of(daemon.run("no-such-command" if not template else "true", **template))
        assert ended.outcome == NotStarted(step, error)


async def test_a_job_knows_what_it_is(desk: Desk) -> None:
    names = "JOB_ID JOBD_JOB_ID JOBD_ATTEMPT JOBD_SESSION JOBD_QUEUE"
    desk.environments["e"] = b"PATH=/usr/bin:/bin\0JOBD_TASK_ID=9\0JOBD_TOKEN=another\0KEPT=\xff\nx\0W=captured"
    async with desk.daemon() as daemon:
        id = daemon.run(
            "sh",
            "-c",
            f'for n in {names} KEPT W; do eval echo \\"\\$$n\\"; done; echo ${{JOBD_TASK_ID-unset}}',
            environment="e",
            job_environment={"W": "in words"},
        )
        await desk.end_of(id)
        told = f"{id}\n{id}\n1\ndefault\ndefault\n".encode()
        assert await daemon.output(id) == told + b"\xff\nx\nin words\nunset\n"


async def test_without_a_captured_environment_it_is_the_minimal_one(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("env")
        await desk.end_of(id)
        names = {line.split(b"=", 1)[0] for line in (await daemon.output(id)).splitlines()}
        assert {b"HOME", b"USER", b"LOGNAME", b"SHELL", b"LANG", b"PATH"} <= names
        assert all(
            name.startswith(b"JOB") for name in names - {b"HOME", b"USER", b"LOGNAME", b"SHELL", b"LANG", b"PATH"}
        )


async def test_files_of_a_job(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"hello")
    async with desk.daemon() as daemon:
        id = daemon.run(
            "tee",
            "$DRMAA2_WORKING_DIR$",
            working_directory=str(tmp_path),
            input_path="in",
            output_path="$DRMAA2_WORKING_DIR$/out",
            error_path="err",
        )
        await desk.end_of(id)
        files = await daemon.backend.files(desk.job(id), desk.tasks(id))
        assert files == {
            "stdin": str(tmp_path / "in"),
            "stdout": str(tmp_path / "out"),
            "stderr": str(tmp_path / "err"),
        }
        assert (tmp_path / "out").read_bytes() == b"hello"
        assert await daemon.output(id) == b"hello"


async def test_captured_output_is_private_and_forgotten(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("echo", "x")
        await desk.end_of(id)
        path = Path(str((await daemon.backend.files(desk.job(id), desk.tasks(id)))["stdout"]))
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        await daemon.backend.forget([id])
        assert not path.parent.exists()


async def test_bytes_go_through_unchanged(desk: Desk) -> None:
    odd = [b"", b"\xff\xfe", b"new\nline", b"quo'te\"", "ünï".encode()]
    async with desk.daemon() as daemon:
        id = daemon.run("printf", "%s|", *odd)
        await desk.end_of(id)
        assert await daemon.output(id) == b"".join(part + b"|" for part in odd)


async def test_starts_never_exceed_the_capacity_and_keep_their_order(desk: Desk, tmp_path: Path) -> None:
    script = "echo + >> log; sleep 0.05; echo - >> log"
    async with desk.daemon(slots=2) as daemon:
        ids = [desk.add("sh", "-c", script, working_directory=str(tmp_path)) for _ in range(8)]
        daemon.start(*ids)
        for id in ids:
            await desk.end_of(id)
    running, most = 0, 0
    for mark in (tmp_path / "log").read_text().split():
        running += 1 if mark == "+" else -1
        most = max(most, running)
    assert most == 2
    assert [one.id for one in desk.seen if isinstance(one, StartedSeen) and one.native_id] == ids


async def test_suspend_resume_signal_terminate(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("sh", "-c", "trap 'echo usr1' USR1; echo ready; while :; do sleep 0.05; done")
        pid = await desk.running(id)
        await daemon.backend.suspend(id)
        assert desk.tasks(id).state is JobState.SUSPENDED
        await daemon.backend.resume(id)
        assert desk.tasks(id).state is JobState.RUNNING
        desk.write_cause(id, "terminated")
        await daemon.backend.terminate(id, "terminated", 5)
        ended = await desk.end_of(id)
        assert (ended.outcome, ended.sub_state) == (Signalled("SIGTERM"), "terminated")
        assert not alive(pid)


async def test_the_whole_tree_is_ended(desk: Desk, tmp_path: Path) -> None:
    script = "setsid sleep 300 & echo $! >> pids; (sleep 300 & echo $! >> pids); echo ok >> pids; sleep 300"
    async with desk.daemon() as daemon:
        id = daemon.run("sh", "-c", script, working_directory=str(tmp_path))
        await desk.running(id)
        with anyio.fail_after(10):
            while "ok" not in ((tmp_path / "pids").read_text() if (tmp_path / "pids").exists() else ""):
                await anyio.sleep(0.01)
        pids = [int(word) for word in (tmp_path / "pids").read_text().split()[:-1]]
        await daemon.backend.terminate(id, "terminated", 5)
        assert [pid for pid in pids if alive(pid)] == []


async def test_what_an_ended_job_left_is_ended_by_tree_gone(desk: Desk, tmp_path: Path) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("sh", "-c", "setsid sleep 300 & echo $! > pid", working_directory=str(tmp_path))
        await desk.end_of(id)
        pid = int((tmp_path / "pid").read_text())
        await daemon.backend.tree_gone(desk.job(id), desk.tasks(id))
        assert not alive(pid)


async def test_control_of_an_ended_job_is_refused(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("true")
        await desk.end_of(id)
        with pytest.raises(InvalidState):
            await daemon.backend.suspend(id)
        await daemon.backend.terminate(id, "terminated", 1)


async def test_a_time_limit_ends_a_job(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        ended = await desk.end_of(daemon.run("sleep", "60", time_limit=0.1))
        assert (ended.outcome, ended.sub_state) == (Signalled("SIGTERM"), "time-limit")


@pytest.mark.parametrize("seconds", [-5.0, 0.0, 0.0001, 3.0, 40 * 86400.0, 1e300])
def test_a_keeper_waits_for_what_is_due_in_months_too(seconds: float) -> None:
    timeout = milliseconds(seconds)
    assert 0 <= timeout < 2**31
    assert timeout >= min(seconds, 86400) * 1000


async def test_limits_nice_and_umask(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run(
            "sh",
            "-c",
            "ulimit -n; ulimit -f; nice; umask",
            resource_limits={"OPEN_FILES": 50, "FILE_SIZE": "1M"},
            nice=5,
            umask=0o027,
        )
        await desk.end_of(id)
        assert (await daemon.output(id)).split() == [b"50", b"2048", b"5", b"0027"]


async def test_a_grant_is_taken_back_or_has_started(desk: Desk) -> None:
    async with desk.daemon(slots=1) as daemon:
        first, second = daemon.run("sleep", "60"), desk.add("true")
        await desk.running(first)
        daemon.start(second)
        assert await daemon.backend.revoke([first, second]) == [second]
        assert not desk.ends(second)


async def test_a_start_is_taken_back_before_it_has_left(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("true")
        assert await daemon.backend.revoke([id]) == [id]
        await desk.end_of(daemon.run("true"))
        assert not [one for one in desk.seen if one.id == id]


async def test_a_start_is_taken_back_at_any_moment_or_was_reported(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        for turns in range(60):
            id = daemon.run("true")
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            back = await daemon.backend.revoke([id])
            started = any(isinstance(one, StartedSeen) and one.id == id for one in desk.seen)
            assert started == (id not in back)


async def test_an_environment_that_is_not_there_refuses_the_start(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("true", environment="missing")
        await desk.until(lambda: any(isinstance(one, RefusedSeen) for one in desk.seen))
        assert isinstance(desk.tasks(id).status, Waiting)
        assert not daemon.backend.health().ok
        await desk.end_of(daemon.run("true"))
        assert daemon.backend.health().ok


async def test_a_keeper_that_can_not_be_started_is_said(desk: Desk) -> None:
    (desk.state_dir / "keepers").mkdir()
    (desk.state_dir / "keepers").chmod(0o777)
    async with desk.daemon() as daemon:
        id = daemon.run("true")
        await desk.until(lambda: any(isinstance(one, RefusedSeen) for one in desk.seen))
        assert "keeper" in (daemon.backend.health().last_error or "")
        (desk.state_dir / "keepers").chmod(0o700)
        daemon.start(id)
        assert (await desk.end_of(id)).outcome == Exited(0)


async def test_reports_wait_for_room_on_disk(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobd.backends.process.reports._AGAIN", 0.01)
    refusals = 3

    def full(seen: Sequence[Observation]) -> None:
        nonlocal refusals
        refusals -= 1
        if refusals >= 0:
            raise OutOfResource("full")

    desk.before_commit = full
    async with desk.daemon() as daemon:
        id = daemon.run("sh", "-c", "exit 7")
        assert (await desk.end_of(id)).outcome == Exited(7)


async def test_a_fifo_that_nobody_opens_holds_up_nobody(desk: Desk, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    async with desk.daemon() as daemon:
        stuck = daemon.run("true", working_directory=str(tmp_path), input_path="fifo")
        assert (await desk.end_of(daemon.run("true"))).outcome == Exited(0)
        await desk.until(lambda: desk.tasks(stuck).state is JobState.RUNNING)
        assert desk.tasks(stuck).status.sub_state == "starting"
        await daemon.backend.terminate(stuck, "terminated", 5)
        await desk.end_of(stuck)


async def test_a_program_in_a_script_with_an_interpreter_that_hangs_holds_up_nobody(desk: Desk, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "interpreter")
    (tmp_path / "script").write_text(f"#!{tmp_path}/interpreter\n")
    (tmp_path / "script").chmod(0o755)
    async with desk.daemon() as daemon:
        refused = daemon.run(str(tmp_path / "script"))
        assert (await desk.end_of(daemon.run("true"))).outcome == Exited(0)
        assert isinstance((await desk.end_of(refused)).outcome, NotStarted)


@needs_root
async def test_root_starts_a_job_as_its_owner(desk: Desk, nobodys: Path) -> None:
    nobody = Owner(65534, "nobody")
    async with desk.daemon() as daemon:
        id = daemon.run(
            "sh",
            "-c",
            "id -u; id -G; echo x >> /dev/stdout",
            owner=nobody,
            working_directory=str(nobodys),
            error_path="err",
        )
        assert (await desk.end_of(id)).outcome == Exited(0)
        assert (await daemon.output(id)).split() == [b"65534", b"65534", b"x"]
        assert (nobodys / "err").stat().st_uid == 65534


@needs_root
async def test_output_that_its_owner_may_not_read_is_not_read_for_him(desk: Desk, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"root's")
    secret.chmod(0o600)
    async with desk.daemon() as daemon:
        id = daemon.run("true", owner=Owner(65534, "nobody"), output_path=str(secret))
        assert (await desk.end_of(id)).outcome == NotStarted("stdout", "EACCES")
        with pytest.raises(NotFound):
            await daemon.output(id)


async def test_an_idle_keeper_leaves_with_its_daemon(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        await desk.end_of(daemon.run("true"))
        pid = daemon.keeper()
        await daemon.acknowledged()
    await gone(pid)
    assert not list((desk.state_dir / "keepers").iterdir())


async def test_a_job_with_a_background_child_is_ended_and_freed_later(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("sh", "-c", "sleep 0.3 & echo done")
        await desk.end_of(id)
        ended = desk.ends(id)[0]
        assert isinstance(ended, EndedSeen)
        assert not ended.freed
        await desk.until(lambda: any(type(one).__name__ == "FreedSeen" for one in desk.seen))


async def test_a_stray_stop_is_seen(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("sleep", "60")
        pid = await desk.running(id)
        os.kill(pid, signal.SIGSTOP)
        await desk.until(lambda: desk.tasks(id).state is JobState.SUSPENDED)
        os.kill(pid, signal.SIGCONT)
        await desk.until(lambda: desk.tasks(id).state is JobState.RUNNING)
        assert to_text("sleep") == desk.job(id).template.remote_command
