"""The client and a real daemon: output, bytes, events, and what becomes of all that when the daemon is killed."""

from __future__ import annotations

import hashlib
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

import jobd
from jobd import JobTemplate
from jobd.client import Event, EventStream, Job
from jobd.client.logs import LogStream
from jobd.model.errors import DrmCommunication, InvalidArgument, InvalidState, NotFound, Timeout
from jobd.model.states import JobState
from jobd.model.template import RawBytes
from tests.conftest import MakeDaemon
from tests.helpers.daemon import Daemon
from tests.typing import api

pytestmark = pytest.mark.anyio


def shell(script: str) -> dict[str, object]:
    """A template that runs a script."""
    return {"remote_command": "/bin/sh", "args": ["-c", script]}


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """A FIFO: a job that reads from it goes on when the test writes a line."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    yield path
    path.unlink()


async def open_gate(gate: Path) -> None:
    """Let the job that reads from the gate go on."""
    await anyio.to_thread.run_sync(gate.write_text, "go\n")


async def restart(daemon: Daemon) -> None:
    """Kill the daemon and start it again."""
    await anyio.to_thread.run_sync(daemon.kill9)
    await anyio.to_thread.run_sync(daemon.start)


class Read:
    """A stream that a task reads to its end."""

    def __init__(self) -> None:
        self.output = b""
        self.events: list[Event] = []
        self._more = anyio.Event()

    async def follow(self, stream: LogStream) -> None:
        """Gather output."""
        async for piece in stream:
            self.output += piece
            self._more.set()
            self._more = anyio.Event()

    async def until(self, text: bytes) -> None:
        """Wait until the output has a text in it."""
        while text not in self.output:
            await self._more.wait()

    async def watch(self, stream: EventStream, last: JobState) -> None:
        """Gather events, until one that leads to a state."""
        async for item in stream:
            assert isinstance(item, Event)
            self.events.append(item)
            if item.after is last:
                return


async def test_both_streams_and_their_tail(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        job = await client.session.run_job(shell("echo 1; echo 2; echo 3; echo err >&2"))
        out = b"".join([piece async for piece in job.logs(follow=True)])
        err = b"".join([piece async for piece in job.logs("stderr", follow=True)])
        tail = b"".join([piece async for piece in job.logs(lines=2)])
        assert (out, err, tail) == (b"1\n2\n3\n", b"err\n", b"2\n3\n")
        with pytest.raises(NotFound):
            await anext(job.logs(attempt=7))


async def test_bytes_survive(daemon: Daemon, tmp_path: Path) -> None:
    odd = bytes(value for value in range(1, 256))
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n'"))
    folder.mkdir()
    template = {
        "remote_command": Path("/usr/bin/printf"),
        "args": [b"%s", odd],
        "working_directory": folder,
        "output_path": os.fsencode(folder) + b"/out",
        "job_environment": {"ODD": odd},
        "job_name": b"\xff",
    }
    async with jobd.connect(daemon.socket) as client:
        job = await client.session.run_job(template)
        info = await job.wait_terminated()
        assert (info.state, info.job_name) == ("DONE", RawBytes("/w=="))
        assert (folder / "out").read_bytes() == odd
        assert b"".join([piece async for piece in job.logs()]) == odd


async def test_an_argument_list_of_a_megabyte(daemon: Daemon) -> None:
    words = ["x" * 1000] * 1000
    async with jobd.connect(daemon.socket) as client:
        job = await client.session.run_job({"remote_command": "printf", "args": ["%s", *words]})
        assert sum([len(piece) async for piece in job.logs(follow=True)]) == 1_000_000


async def test_a_job_from_the_library_inherits_nothing_of_this_process(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_CALLER", "1")
    async with jobd.connect(daemon.socket) as client:
        job = await client.session.run_job({"remote_command": "env", "job_environment": {"GIVEN": "1"}})
        output = b"".join([piece async for piece in job.logs(follow=True)])
        names = {line.split(b"=")[0].decode() for line in output.splitlines()}
        assert {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "GIVEN", "JOBD_JOB_ID"} <= names
        assert "OF_THE_CALLER" not in names


async def test_signals_reach_the_job(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        job = await client.session.run_job(
            shell("trap 'echo caught; exit 5' USR1; echo ready; while :; do sleep 0.01; done")
        )
        async with job.logs(follow=True) as output:
            assert await anext(output) == b"ready\n"
            await job.signal(signal.SIGUSR1, leader=True)
            assert (await job.wait_terminated()).exit_status == 5
            assert await anext(output) == b"caught\n"
        with pytest.raises(InvalidState):
            await job.signal("TERM")
        with pytest.raises(InvalidArgument):
            await job.signal("NONSENSE")


async def test_waiting_for_a_state(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        job = await client.session.run_job(shell("sleep 60"))
        await job.wait_for(JobState.RUNNING, 10)
        with pytest.raises(Timeout):
            await job.wait_for(JobState.SUSPENDED, 0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(job.wait_for, JobState.SUSPENDED)
            await job.suspend()
        await job.terminate(grace=0)
        with pytest.raises(InvalidState):
            await job.wait_for(JobState.RUNNING)


async def test_a_command_that_is_not_there(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        job = await client.session.run_job({"remote_command": "/no/such/command"})
        info = await job.wait_terminated()
        assert (info.state, info.sub_state, info.exit_status) == ("FAILED", "start-failed", None)
        with pytest.raises(InvalidState):
            await job.wait_started()


async def test_a_request_id_gives_the_same_job_again(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        first = await client.session.run_job({"remote_command": "true"}, "once")
        await first.wait_terminated()
        assert await client.session.run_job({"remote_command": "true"}, "once") == first
        with pytest.raises(InvalidArgument):
            await client.session.run_job({"remote_command": "false"}, "once")


async def test_events_of_all_jobs_and_of_one(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        first, second = await client.session.run_jobs([JobTemplate(remote_command="true")] * 2)
        for job in (first, second):
            await job.wait_terminated()
        both = [item async for item in client.events(since=0, follow=False)]
        one = [item async for item in client.events(since=0, job=second, follow=False)]
        assert all(isinstance(item, Event) for item in both)
        assert Counter(item.job_id for item in both if isinstance(item, Event)) == {"1": 3, "2": 3}
        assert [item for item in both if isinstance(item, Event) and item.job_id == "2"] == one
        assert [item.after.name for item in one if isinstance(item, Event)] == ["QUEUED", "RUNNING", "DONE"]


@pytest.mark.crash
async def test_a_killed_daemon_loses_no_wait_no_output_and_no_event(daemon: Daemon, gate: Path) -> None:
    waited: dict[str, str | None] = {}
    output, events = Read(), Read()

    async def wait(job: Job) -> None:
        waited[job.id] = (await job.wait_terminated()).state

    async with jobd.connect(daemon.socket) as client:
        async with client.events() as stream, anyio.create_task_group() as tasks:
            tasks.start_soon(events.watch, stream, JobState.FAILED)
            job = await client.session.run_job(shell(f"echo one; read _ <{gate}; echo two; exit 9"))
            tasks.start_soon(wait, job)
            tasks.start_soon(output.follow, job.logs(follow=True))
            await output.until(b"one")
            await restart(daemon)
            await open_gate(gate)
        assert waited == {"1": "FAILED"}
        assert (await job.info()).exit_status == 9
        assert output.output == b"one\ntwo\n"
        assert [event.seq for event in events.events] == [1, 2, 3]


@pytest.mark.crash
async def test_a_daemon_killed_again_and_again_takes_each_submission_once(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(config="[scheduler]\nslots = 4\n")
    daemon.start()
    jobs: list[Job] = []
    submitted = anyio.Event()

    async def submit(client: jobd.Client) -> None:
        nonlocal submitted
        for _ in range(60):
            jobs.append(await client.session.run_job({"remote_command": "true"}))
            submitted.set()
            submitted = anyio.Event()

    async with jobd.connect(daemon.socket) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(submit, client)
            for _ in range(3):
                await submitted.wait()
                await restart(daemon)
        assert len({job.id for job in jobs}) == 60
        for job in jobs:
            assert (await job.wait_terminated()).exit_status == 0
        assert await client.session.get_jobs() == jobs


@pytest.mark.crash
async def test_a_job_ended_while_the_daemon_was_away(daemon: Daemon, gate: Path) -> None:
    async with jobd.connect(daemon.socket) as client:
        job = await client.session.run_job(shell(f"read _ <{gate}; kill -9 $$"))
        await job.wait_started()
        await anyio.to_thread.run_sync(daemon.kill9)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(job.wait_terminated)
            await open_gate(gate)
            await anyio.to_thread.run_sync(daemon.start)
        assert (await job.info()).terminating_signal == "SIGKILL"


async def test_a_stopped_daemon_is_given_up_by_a_wait_with_a_timeout(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        job = await client.session.run_job(shell("sleep 60"))
        await job.wait_started()
        daemon.signal(signal.SIGSTOP)
        try:
            with pytest.raises(Timeout):
                await job.wait_terminated(0.1)
        finally:
            daemon.signal(signal.SIGCONT)
        await job.terminate(grace=0)


async def test_a_daemon_that_was_stopped_is_not_started_by_who_waits(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket, autostart=True, patience=0.5) as client:
        job = await client.session.run_job(shell("sleep 60"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, daemon.stop)
            with pytest.raises(DrmCommunication):
                await job.wait_terminated()
        assert not any(b"serve" in process.argv for process in daemon.processes())


async def test_a_thousand_waits_side_by_side(daemon: Daemon, gate: Path) -> None:
    async with jobd.connect(daemon.socket) as client:
        job = await client.session.run_job(shell(f"read _ <{gate}"))
        async with anyio.create_task_group() as tasks:
            for _ in range(1100):
                tasks.start_soon(job.wait_terminated)
            await job.wait_started()
            await open_gate(gate)
        assert (await job.info()).state == "DONE"


async def test_a_daemon_is_started_where_none_runs(make_daemon: MakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = make_daemon()
    monkeypatch.setenv("JOBD_CONFIG", f"{daemon.state_dir}/jobd.toml")
    with anyio.fail_after(30):
        async with jobd.connect(state_dir=daemon.state_dir, autostart=True) as client:
            job = await client.session.run_job({"remote_command": "true"})
            assert (await job.wait_terminated()).state == "DONE"
            status = await client.status()
            assert status.state_dir == str(daemon.state_dir)
        async with jobd.connect(state_dir=daemon.state_dir) as client:
            assert (await client.status()).pid == status.pid
    os.kill(status.pid, signal.SIGTERM)


async def test_a_bad_configuration_is_said_to_whoever_would_start_it(
    make_daemon: MakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = make_daemon(config="[nonsense]\n")
    monkeypatch.setenv("JOBD_CONFIG", f"{daemon.state_dir}/jobd.toml")
    with pytest.raises(DrmCommunication, match="nonsense"):
        async with jobd.connect(state_dir=daemon.state_dir, autostart=True):
            pytest.fail("connected")


async def test_the_example_of_the_library_works(daemon: Daemon) -> None:
    files = sorted(Path(jobd.__path__[0], "model").glob("*.py"))
    sums = await api.main(daemon.socket, files)
    assert sums == {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
