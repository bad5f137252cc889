"""Deaths of daemons and keepers: nothing is lost, nothing runs twice, no status is invented."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import anyio
import pytest

from jobd.backends.base import EndedSeen, RefusedSeen
from jobd.backends.process.keeper.spawn import tick_now
from jobd.model.errors import DrmCommunication
from jobd.model.ids import JobId
from jobd.model.job import Tasks
from jobd.model.states import JobState
from jobd.model.status import Active, Exited, Signalled, Unknown, Waiting
from tests.process.desk import MACHINE, STORE_ID, Desk, alive, kill

pytestmark = [pytest.mark.anyio, pytest.mark.crash]


def mark(folder: Path, text: str) -> str:
    """A script that leaves a mark in ``runs``, to count starts."""
    return f"echo x >> {folder}/runs; {text}"


def until_go(folder: Path) -> str:
    """A script that waits for a file named ``go``."""
    return f"until [ -e {folder}/go ]; do sleep 0.02; done"


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().split())


async def test_ends_that_came_while_no_daemon_was_there(desk: Desk, tmp_path: Path) -> None:
    async with desk.daemon() as daemon:
        ids = [daemon.run("sh", "-c", mark(tmp_path, f"{until_go(tmp_path)}; exit {n}")) for n in range(10, 30)]
        signalled = daemon.run("sh", "-c", f"{until_go(tmp_path)}; kill -9 $$")
        pids = [await desk.running(id) for id in [*ids, signalled]]
    (tmp_path / "go").touch()
    with anyio.fail_after(10):
        while any(map(alive, pids)):
            await anyio.sleep(0.02)
    async with desk.daemon():
        assert [(await desk.end_of(id)).outcome for id in ids] == [Exited(n) for n in range(10, 30)]
        ended = await desk.end_of(signalled)
        assert ended.outcome == Signalled("SIGKILL")
        assert ended.usage.user_time is not None
    assert runs(tmp_path) == 20


async def test_what_runs_on_is_under_control_of_the_next_daemon(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("sleep", "300")
        pid = await desk.running(id)
        first = daemon.keeper()
    async with desk.daemon() as daemon:
        assert (desk.tasks(id).state, alive(pid), daemon.keeper()) == (JobState.RUNNING, True, first)
        assert (await desk.end_of(daemon.run("true"))).outcome == Exited(0)
        await daemon.backend.terminate(id, "terminated", 5)
        assert (await desk.end_of(id)).outcome == Signalled("SIGTERM")


async def test_grants_go_on_while_no_daemon_is_there(desk: Desk, tmp_path: Path) -> None:
    async with desk.daemon(slots=1) as daemon:
        first = daemon.run("sh", "-c", until_go(tmp_path))
        second = daemon.run("sh", "-c", mark(tmp_path, "exit 5"))
        await desk.running(first)
        with anyio.fail_after(10):
            while not any(link.known >= {token(second)} for link in daemon.backend._keepers.links.values()):
                await anyio.sleep(0.01)
    (tmp_path / "go").touch()
    async with desk.daemon(slots=1):
        assert (await desk.end_of(second)).outcome == Exited(5)
    assert runs(tmp_path) == 1


async def test_an_intent_that_no_keeper_has_comes_back(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        name = daemon.backend.slot_agent()
    id = desk.add("true")
    desk.intend(id, name)
    async with desk.daemon() as daemon:
        assert isinstance(desk.tasks(id).status, Waiting)
        assert desk.tasks(id).attempt == 0
        daemon.start(id)
        assert (await desk.end_of(id)).outcome == Exited(0)


async def test_a_killed_keeper_is_noticed_and_its_jobs_run_on(desk: Desk, tmp_path: Path) -> None:
    async with desk.daemon(slots=2) as daemon:
        id = daemon.run("sh", "-c", mark(tmp_path, f"{until_go(tmp_path)}; exit 9"))
        waiting = daemon.run("sleep", "300", slots=2)
        pid = await desk.running(id)
        keeper = daemon.keeper()
        await kill(keeper)
        await desk.until(lambda: any(isinstance(one, RefusedSeen) and one.id == waiting for one in desk.seen))
        assert alive(pid) and desk.tasks(id).state is JobState.RUNNING
        assert (await desk.end_of(daemon.run("true"))).outcome == Exited(0)
        assert daemon.keeper() != keeper
        (tmp_path / "go").touch()
        ended = await desk.end_of(id)
        # The daemon is a subreaper and started the keeper: the job fell to it, so it is told everything.
        assert ended.outcome == Exited(9)
        assert ended.usage.user_time is not None
    assert runs(tmp_path) == 1


async def test_a_followed_job_obeys(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("sh", "-c", "setsid sleep 300 & trap 'exit 4' USR1; while :; do sleep 0.05; done")
        pid = await desk.running(id)
        await kill(daemon.keeper())
        await daemon.followed(1)
        await daemon.backend.suspend(id)
        assert desk.tasks(id).state is JobState.SUSPENDED
        await daemon.backend.resume(id)
        assert desk.tasks(id).state is JobState.RUNNING
        desk.write_cause(id, "terminated")
        await daemon.backend.terminate(id, "terminated", 5)
        assert (await desk.end_of(id)).sub_state == "terminated"
        assert not alive(pid)
        assert not [one for one in processes_of(id) if alive(one)]


async def test_a_time_limit_holds_without_a_keeper(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("sleep", "300", time_limit=0.7)
        await desk.running(id)
        await kill(daemon.keeper())
        ended = await desk.end_of(id)
        assert (ended.outcome, ended.sub_state) == (Signalled("SIGTERM"), "time-limit")
        assert ended.wallclock_time is not None and ended.wallclock_time >= 0.69


async def test_what_a_followed_job_leaves_is_ended(desk: Desk, tmp_path: Path) -> None:
    script = f"setsid sleep 300 & {until_go(tmp_path)}"
    async with desk.daemon() as daemon:
        id = daemon.run("sh", "-c", script)
        await desk.running(id)
        await kill(daemon.keeper())
        await daemon.followed(1)
        (tmp_path / "go").touch()
        await desk.end_of(id)
        await daemon.backend.tree_gone(desk.job(id), desk.tasks(id))
        assert not [one for one in processes_of(id) if alive(one)]


async def test_daemon_and_keeper_killed_together(desk: Desk, tmp_path: Path) -> None:
    async with desk.daemon() as daemon:
        runner = daemon.run("sh", "-c", mark(tmp_path, f"{until_go(tmp_path)}; exit 9"))
        ender = daemon.run("sleep", "300")
        pid, other = await desk.running(runner), await desk.running(ender)
        keeper = daemon.keeper()
        os.kill(keeper, signal.SIGKILL)  # and without a pause in which it could be noticed the daemon ends
    assert not daemon.backend._aftermath.followers
    await kill(other)
    async with desk.daemon() as daemon:
        ended = await desk.end_of(ender)
        assert ended.outcome in (Unknown(), Signalled("SIGKILL"))
        assert (ended.sub_state == "exit-status-unknown") == (ended.outcome == Unknown())
        assert alive(pid) and desk.tasks(runner).state is JobState.RUNNING
        journals = list((desk.state_dir / "keepers").glob("*/journal"))
        assert len(journals) == 1, "a journal stays as long as a job is followed by it"
    async with desk.daemon() as daemon:
        assert alive(pid) and desk.tasks(runner).state is JobState.RUNNING
        (tmp_path / "go").touch()
        assert (await desk.end_of(runner)).outcome in (Exited(9), Unknown())
        with anyio.fail_after(10):
            while list((desk.state_dir / "keepers").glob("1-*")):
                await anyio.sleep(0.02)
    assert runs(tmp_path) == 1


async def test_a_keeper_that_does_not_answer_holds_up_only_its_jobs(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobd.backends.process.keepers._ANSWER_WITHIN", 0.3)
    async with desk.daemon() as daemon:
        id = daemon.run("sleep", "300")
        await desk.running(id)
        keeper = daemon.keeper()
    lost = desk.add("true")
    desk.intend(lost, "1-1")
    os.kill(keeper, signal.SIGSTOP)
    try:
        async with desk.daemon() as daemon:
            assert not daemon.backend.health().ok
            assert (await desk.end_of(daemon.run("true"))).outcome == Exited(0)
            assert desk.tasks(id).state is JobState.RUNNING
            assert desk.tasks(lost).status.granted_to == "1-1"  # type: ignore[union-attr]
            with pytest.raises(DrmCommunication):
                await daemon.backend.revoke([lost])
            os.kill(keeper, signal.SIGCONT)
            await desk.until(lambda: desk.tasks(lost).status == Waiting(JobState.QUEUED))
            assert daemon.backend.health().ok
            await daemon.backend.terminate(id, "terminated", 5)
            await desk.end_of(id)
            await daemon.acknowledged()
    finally:
        if alive(keeper):
            os.kill(keeper, signal.SIGCONT)


async def test_an_older_daemon_that_goes_on_harms_nothing(desk: Desk) -> None:
    async with desk.daemon() as old:
        id = old.run("sleep", "300")
        pid = await desk.running(id)
        async with desk.daemon() as new:
            assert new.keeper()
            await anyio.sleep(0.1)
            assert alive(pid) and desk.tasks(id).state is JobState.RUNNING
            assert list((desk.state_dir / "keepers").glob("1-1/journal"))
            assert not old.backend._aftermath.followers
            await new.backend.terminate(id, "terminated", 5)
            assert (await desk.end_of(id)).outcome == Signalled("SIGTERM")


async def test_an_end_that_was_under_way_is_taken_up_again(desk: Desk) -> None:
    async with desk.daemon() as daemon:
        id = daemon.run("sleep", "300")
        await desk.running(id)
        desk.write_cause(id, "terminated")
    async with desk.daemon():
        assert (await desk.end_of(id)).sub_state == "terminated"


@pytest.mark.parametrize(
    ("point", "fast"), [("after-starting", True), ("after-fork", True), ("after-fork", False), ("after-ended", True)]
)
async def test_a_keeper_that_dies_at_a_named_point(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, fast: bool
) -> None:
    (tmp_path / "runs").touch()
    monkeypatch.setenv("JOBD_CRASH_AT", point)
    async with desk.daemon() as daemon:
        id = daemon.run("sh", "-c", mark(tmp_path, "exit 3"), nice=None if fast else 1)
        ended = await desk.end_of(id)
        assert len(desk.ends(id)) == 1
        if point == "after-starting":
            assert (ended.outcome, ended.sub_state, runs(tmp_path)) == (Unknown(), "exit-status-unknown", 0)
        elif point == "after-ended":
            assert (ended.outcome, runs(tmp_path)) == (Exited(3), 1)
        else:
            assert ended.outcome in (Exited(3), Unknown())
            assert runs(tmp_path) <= 1


async def test_a_reboot_is_told_by_the_boot_id(desk: Desk) -> None:
    id = desk.add("sleep", "300")
    journal(desk, id, boot="another-boot", pid=os.getpid(), low=tick_now() - 10**6, high=tick_now())
    async with desk.daemon():
        ended = await desk.end_of(id)
        assert (ended.outcome, ended.sub_state) == (Unknown(), "node-rebooted")


async def test_a_pid_that_is_anothers_now_is_never_touched(desk: Desk) -> None:
    stranger = await anyio.open_process(["sleep", "300"], start_new_session=True)
    try:
        id = desk.add("sleep", "300")
        journal(desk, id, pid=stranger.pid, low=100, high=100)
        desk.write_cause(id, "terminated")
        async with desk.daemon() as daemon:
            assert (await desk.end_of(id)).outcome == Unknown()
            await daemon.backend.tree_gone(desk.job(id), desk.tasks(id))
        assert stranger.returncode is None and alive(stranger.pid)
    finally:
        stranger.kill()
        await stranger.aclose()


async def test_a_torn_journal_is_read_up_to_there(desk: Desk) -> None:
    id = desk.add("true")
    path = journal(desk, id, pid=2**22 - 1, low=1, high=1)
    with path.open("ab") as file:
        file.write(b'{"k":"ended","t":"' + token(id).encode() + b'","pid":1,"sta')
    async with desk.daemon():
        assert (await desk.end_of(id)).outcome == Unknown()


async def test_a_cause_in_a_dead_keepers_journal_counts(desk: Desk) -> None:
    id = desk.add("true")
    path = journal(desk, id, pid=2**22 - 1, low=1, high=1)
    with path.open("a") as file:
        file.write(json.dumps({"k": "cause", "t": token(id), "cause": "time-limit"}) + "\n")
    async with desk.daemon():
        ended = await desk.end_of(id)
        assert (ended.outcome, ended.sub_state) == (Unknown(), "time-limit")


async def test_a_running_job_without_any_journal_is_found_by_its_token(desk: Desk) -> None:
    id = desk.add("sleep", "300")
    process = await anyio.open_process(
        ["sleep", "300"], start_new_session=True, env={"JOBD_TOKEN": token(id)}, stdin=None, stdout=None, stderr=None
    )
    desk.put(id, Tasks(job=id.job, attempt=1, status=Active(JobState.RUNNING, "1", 1e9, (MACHINE,), "0-1")))
    try:
        async with desk.daemon() as daemon:
            assert desk.tasks(id).state is JobState.RUNNING
            await daemon.backend.terminate(id, "terminated", 5)
            await desk.end_of(id)
            assert len(desk.ends(id)) == 1 and isinstance(desk.ends(id)[0], EndedSeen)
    finally:
        await process.wait()


def token(id: JobId) -> str:
    return f"{STORE_ID}-{id.job}.{id.task}-1"


def journal(desk: Desk, id: JobId, *, pid: int, low: int, high: int, boot: str | None = None) -> Path:
    """The journal of a dead keeper that started a job."""
    folder = desk.state_dir / "keepers" / "0-1"
    folder.mkdir(parents=True)
    desk.intend(id, "0-1")
    boot = boot or Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    started = {"pid": pid, "lo": low, "hi": high, "at": 1e9, "boot": 1.0, "x": True}
    records = [
        {"k": "keeper", "protocol": 1, "pid": 1, "tick": 1, "boot": boot},
        {"k": "starting", "t": token(id)},
        {"k": "started", "t": token(id), **started},
    ]
    path = folder / "journal"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def processes_of(id: JobId) -> list[int]:
    """Everything with the token of a job's first attempt."""
    found = []
    for name in os.listdir("/proc"):
        try:
            entries = Path(f"/proc/{name}/environ").read_bytes().split(b"\0") if name.isdigit() else []
        except OSError:
            continue
        if f"JOBD_TOKEN={token(id)}".encode() in entries:
            found.append(int(name))
    return found
