"""Jobs: cases JB-1 to JB-3 of the reference's tests, against a real daemon."""

from __future__ import annotations

import pytest

import jobd
from jobd import JobTemplate
from jobd.model.errors import InvalidArgument, InvalidState, NotFound
from jobd.model.states import JobState
from tests.conftest import MakeDaemon
from tests.helpers.daemon import Daemon

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])]

SLEEP = JobTemplate(remote_command="sleep", args=("60",), job_name="nap", labels={"k": "v"}, time_limit=100)


async def test_jb_1_a_job_knows_its_id_session_and_template(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        session = await client.create_job_session("mine")
        job = await session.run_job(SLEEP)
        assert job.id == "1"
        assert job.session_name == "mine"
        assert await job.job_template() == SLEEP
        [again] = await session.get_jobs()
        assert again == job
        shown = await again.job_template()
        assert (shown.remote_command, shown.args, shown.labels) == (SLEEP.remote_command, SLEEP.args, SLEEP.labels)
        assert (shown.job_name, shown.time_limit, shown.session) == ("nap", 100, "mine")
        await job.terminate(grace=0)


async def test_jb_1_an_error_of_info_reaches_the_caller(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        job = await client.session.run_job({"remote_command": "true"})
        await job.wait_terminated()
        await job.reap()
        for use in (job.info, job.state, job.job_template, job.wait_terminated, job.reap, job.terminate):
            with pytest.raises(InvalidArgument) as caught:
                await use()
            assert isinstance(caught.value, NotFound)
        with pytest.raises(NotFound):
            await anext(job.logs())


async def test_jb_2_control_of_a_running_job(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        job = await client.session.run_job(SLEEP)
        await job.wait_started()
        await job.suspend()
        assert await job.state() is JobState.SUSPENDED
        with pytest.raises(InvalidState):
            await job.suspend()
        await job.resume()
        assert await job.state() is JobState.RUNNING
        for refused in (job.resume, job.hold, job.release, job.reap):
            with pytest.raises(InvalidState):
                await refused()
        await job.terminate()
        info = await job.info()
        assert (info.state, info.sub_state, info.terminating_signal) == ("FAILED", "terminated", "SIGTERM")


async def test_jb_2_control_of_a_waiting_job(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(config="[scheduler]\nslots = 1\n")
    daemon.start()
    async with jobd.connect(daemon.socket) as client:
        running, waiting = await client.session.run_jobs([SLEEP, SLEEP])
        await running.wait_started()
        assert await waiting.state() is JobState.QUEUED
        await waiting.hold()
        assert await waiting.state() is JobState.QUEUED_HELD
        await waiting.release()
        assert await waiting.state() is JobState.QUEUED
        for refused in (waiting.release, waiting.suspend, waiting.resume):
            with pytest.raises(InvalidState):
                await refused()
        with pytest.raises(InvalidState):
            await waiting.signal("USR1")
        await waiting.terminate()
        assert (await waiting.info()).state == "FAILED"
        await running.terminate()


async def test_jb_3_waiting_and_reaping(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        job = await client.session.run_job(SLEEP)
        assert (await job.wait_started(10)).state == "RUNNING"
        with pytest.raises(InvalidState):
            await job.reap()
        await job.terminate()
        assert (await job.wait_terminated(0)).state == "FAILED"
        await job.reap()
        assert await client.session.get_jobs() == []
