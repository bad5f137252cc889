"""Job sessions: cases JS-1 to JS-10 of the reference's tests, against a real daemon. Those of arrays are not here."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

import jobd
from jobd import JobInfo, JobTemplate
from jobd.client import Job
from jobd.model.errors import InvalidArgument, InvalidSession, InvalidState, NotFound, Timeout
from tests.conftest import MakeDaemon
from tests.helpers.daemon import Daemon

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])]

TRUE = {"remote_command": "true"}
FALSE = {"remote_command": "false"}
SLEEP = {"remote_command": "sleep", "args": ["60"]}


def ids(jobs: list[Job]) -> list[str]:
    """The ids of jobs."""
    return [job.id for job in jobs]


async def test_js_1_name_categories_and_close(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        session = await client.create_job_session("mine")
        assert session.name == "mine"
        assert session.job_categories == ()
        await session.close()


async def test_js_2_the_contact_is_the_given_one(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        assert (await client.create_job_session("mine", "here")).contact == "here"
        assert (await client.open_job_session("mine")).contact == "here"


async def test_js_3_the_template_is_kept_and_the_job_is_found_by_its_id(daemon: Daemon) -> None:
    template = JobTemplate(
        remote_command="sh",
        args=("-c", "exit 0", ""),
        working_directory="/tmp",
        job_environment={"A": "b"},
        input_path="/dev/null",
        output_path="/dev/null",
        error_path="/dev/null",
        join_files=False,
        job_name="a name",
        slots=1,
        submit_as_hold=False,
        rerunnable=True,
        resource_limits={"OPEN_FILES": 100},
        umask=0o27,
        nice=1,
        append_output=True,
        time_limit=60.0,
        leave_children=False,
        labels={"k": "v"},
        native={},
    )
    async with jobd.connect(daemon.socket) as client:
        await client.session.run_job(TRUE)
        job = await client.session.run_job(template)
        kept = await job.job_template()
        for name in template.__struct_fields__:
            assert getattr(kept, name) == getattr(template, name), name
        found = await client.session.get_jobs(JobInfo(job_id=job.id))
        assert found == [job]
        assert (await client.session.get_job(job.id)) == job
        for other in ("99", "no id", "1.7"):
            assert await client.session.get_jobs(JobInfo(job_id=other)) == []
        with pytest.raises(NotFound):
            await client.session.get_job(99)


async def test_js_3_jobs_are_those_of_the_session(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        mine = await client.create_job_session("mine")
        job = await mine.run_job(TRUE)
        assert await client.session.get_jobs() == []
        assert await client.session.get_jobs(JobInfo(job_id=job.id)) == []
        assert await client.session.get_jobs(JobInfo(session_name="mine")) == []
        assert await mine.get_jobs(JobInfo(session_name="mine")) == [job]
        with pytest.raises(InvalidArgument):
            await client.session.run_job({**TRUE, "session": "mine"})
        with pytest.raises(InvalidArgument):
            await client.session.wait_any_terminated([job])


async def test_js_4_wait_any_started(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        with pytest.raises(InvalidArgument):
            await client.session.wait_any_started([])
        job = await client.session.run_job(SLEEP)
        assert await client.session.wait_any_started([job], 10) == job
        await job.terminate(grace=0)


async def test_js_5_wait_any_terminated(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        with pytest.raises(InvalidArgument):
            await client.session.wait_any_terminated([])
        job = await client.session.run_job(TRUE)
        assert await client.session.wait_any_terminated([job]) == job


async def test_js_6_an_empty_session_has_no_jobs(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        assert await client.session.get_jobs() == []
        assert await client.session.get_jobs(JobInfo()) == []


async def test_js_7_jobs_by_exit_status(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(config="[scheduler]\nslots = 1\n")
    daemon.start()
    async with jobd.connect(daemon.socket) as client:
        session = client.session
        done, failed = await session.run_jobs([TRUE, FALSE])
        for job in (done, failed):
            await job.wait_terminated()
        assert await session.get_jobs(JobInfo()) == [done, failed]
        running, waiting = await session.run_jobs([SLEEP, TRUE])
        await running.wait_started()
        await running.signal("KILL")
        await running.wait_terminated()
        await waiting.wait_terminated()
        held = await session.run_job({**TRUE, "submit_as_hold": True})
        # Neither the one that a signal ended nor the one that waits has an exit status.
        assert await session.get_jobs(JobInfo(exit_status=0)) == [done, waiting]
        assert await session.get_jobs(JobInfo(exit_status=1)) == [failed]
        assert (await done.info()).state == "DONE"
        assert (await failed.info()).state == "FAILED"
        assert await session.get_jobs(JobInfo(terminating_signal="SIGKILL")) == [running]
        assert await session.get_jobs(JobInfo(state="QUEUED_HELD")) == [held]


@pytest.mark.parametrize("days", [-1, 1])
async def test_js_7_jobs_by_time_are_those_at_or_after_it(daemon: Daemon, days: int) -> None:
    async with jobd.connect(daemon.socket) as client:
        job = await client.session.run_job(TRUE)
        await job.wait_terminated()
        wanted = JobInfo(finish_time=datetime.now(UTC) + timedelta(days=days), wallclock_time=0.0)
        assert await client.session.get_jobs(wanted) == ([job] if days < 0 else [])


@pytest.mark.parametrize("template", [{}, {"args": ["x"]}, {"remote_command": ""}, {"remote_command": 3}])
async def test_js_8_an_empty_template_is_refused(daemon: Daemon, template: dict[str, Any]) -> None:
    async with jobd.connect(daemon.socket) as client:
        with pytest.raises(InvalidArgument):
            await client.session.run_job(template)
        with pytest.raises(InvalidArgument, match="template 2"):
            await client.session.run_jobs([TRUE, template])
        with pytest.raises(InvalidArgument):
            await client.session.run_jobs([])
        assert await client.session.get_jobs() == []


async def test_js_9_every_call_after_close_is_an_error(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        session = await client.create_job_session("mine")
        job = await session.run_job(TRUE)
        await session.close()
        for call in (
            session.close(),
            session.run_job(TRUE),
            session.run_jobs([TRUE]),
            session.get_jobs(),
            session.get_job("1"),
            session.wait_any_started([job]),
            session.wait_any_terminated([job]),
            session.__aenter__(),
        ):
            with pytest.raises(InvalidSession):
                await call
        with pytest.raises(InvalidSession):
            _ = session.job_categories
        # Closing is no end of the jobs.
        assert (await job.wait_terminated()).state == "DONE"
        async with await client.open_job_session("mine") as again:
            assert ids(await again.get_jobs()) == ["1"]
        with pytest.raises(InvalidSession):
            await again.get_jobs()


async def test_js_10_wait_any_returns_the_first_and_leaves_the_others_alone(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        session = client.session
        slow, quick = await session.run_jobs([SLEEP, TRUE])
        assert await session.wait_any_terminated([slow, quick], 10) == quick
        with anyio.fail_after(5), pytest.raises(Timeout):
            await session.wait_any_terminated([slow], 0)
        with pytest.raises(Timeout):
            await session.wait_any_terminated([slow], 0.05)
        assert await session.wait_any_started([slow], 10) == slow
        await slow.terminate(grace=0)


async def test_js_10_wait_any_fails_once_it_can_come_for_none(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        session = client.session
        held = await session.run_jobs([{**TRUE, "submit_as_hold": True}] * 2)
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                for job in held:
                    tasks.start_soon(job.terminate)
                with pytest.raises(InvalidState):
                    await session.wait_any_started(held)
        reaped = await session.run_job(TRUE)
        await reaped.wait_terminated()
        await reaped.reap()
        with pytest.raises(NotFound):
            await session.wait_any_terminated([reaped])
