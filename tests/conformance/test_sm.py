"""The session manager: cases SM-1 to SM-8 of the reference's tests, against a real daemon."""

from __future__ import annotations

import pytest

import jobd
from jobd.client import Capability
from jobd.model.errors import InvalidArgument, InvalidSession, NotFound, UnsupportedAttribute, UnsupportedOperation
from tests.helpers.daemon import Daemon

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])]


async def test_sm_1_create_destroy_and_create_again(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        first = await client.create_job_session("mine")
        with pytest.raises(InvalidArgument):
            await client.create_job_session("mine")
        job = await first.run_job({"remote_command": "true"})
        await client.destroy_job_session("mine")
        with pytest.raises(InvalidSession):
            await first.get_jobs()
        # Destroying a session is no end of its jobs.
        assert (await job.wait_terminated()).state == "DONE"
        assert (await client.create_job_session("mine")).name == "mine"


async def test_sm_1_a_session_that_another_client_destroyed(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client, jobd.connect(daemon.socket) as other:
        session = await client.create_job_session("mine")
        await other.destroy_job_session("mine")
        with pytest.raises(InvalidSession):
            await session.run_job({"remote_command": "true"})
        with pytest.raises(InvalidSession):
            await session.close()


async def test_sm_1_a_session_without_a_name_gets_one(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        made = {(await client.create_job_session()).name for _ in range(2)}
        assert len(made) == 2
        assert made < set(await client.get_job_session_names())
        for name in ("", "\n", "\udcff"):
            with pytest.raises(InvalidArgument):
                await client.create_job_session(name)


async def test_sm_2_unknown_sessions(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        with pytest.raises(NotFound):
            await client.open_job_session("nobody's")
        with pytest.raises(NotFound):
            await client.destroy_job_session("nobody's")
        with pytest.raises(InvalidArgument):
            await client.destroy_job_session("default")


async def test_sm_3_open_after_close_and_while_open(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        first = await client.create_job_session("mine")
        await first.close()
        second = await client.open_job_session("mine")
        third = await client.open_job_session("mine")
        job = await second.run_job({"remote_command": "true"})
        await second.close()
        assert await third.get_jobs() == [job]


async def test_sm_4_sessions_outlive_the_daemon(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        session = await client.create_job_session("mine", "here")
        job = await session.run_job({"remote_command": "true"})
        await job.wait_terminated()
        await session.close()
        daemon.kill9()
        daemon.start()
        again = await client.open_job_session("mine")
        assert (again.contact, await again.get_jobs()) == ("here", [job])
        await again.close()
        await client.destroy_job_session("mine")
        assert (await client.create_job_session("mine")).contact is None


async def test_sm_5_monitoring_session(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        with pytest.raises(UnsupportedOperation, match="open_monitoring_session"):
            await client.open_monitoring_session()


async def test_sm_6_names_versions_and_capabilities(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        assert client.drms_name == "jobd"
        assert client.drmaa_name
        for version in (client.drms_version, client.drmaa_version):
            assert version.major.isdecimal()
            assert version.minor.isdecimal()
        answers = {capability: await client.supports(capability) for capability in Capability}
        assert len(answers) == 13
        with pytest.raises(UnsupportedOperation, match="register_event_notification"):
            await client.register_event_notification(print)


TEMPLATES: dict[Capability, dict[str, object]] = {
    Capability.JT_EMAIL: {"email": ["me@example.org"]},
    Capability.JT_STAGING: {"stage_in_files": {"a": "b"}},
    Capability.JT_DEADLINE: {"deadline_time": "2100-01-01T00:00:00Z"},
    Capability.JT_MAXSLOTS: {"min_slots": 1, "max_slots": 2},
    Capability.JT_ACCOUNTINGID: {"accounting_id": "x"},
    Capability.BULK_JOBS_MAXPARALLEL: {"array": {"begin": 1, "end": 2, "max_parallel": 1}},
}


@pytest.mark.parametrize("capability", TEMPLATES)
async def test_sm_6_what_is_said_of_a_capability_is_true(daemon: Daemon, capability: Capability) -> None:
    async with jobd.connect(daemon.socket) as client:
        template = {"remote_command": "true", **TEMPLATES[capability]}
        if await client.supports(capability):
            await (await client.session.run_job(template)).wait_terminated()
        else:
            with pytest.raises((UnsupportedAttribute, InvalidArgument)):
                await client.session.run_job(template)


async def test_sm_7_session_names(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        # The default session is always there.
        assert await client.get_job_session_names() == ["default"]
        await client.create_job_session("a")
        await client.create_job_session("b")
        assert await client.get_job_session_names() == ["default", "a", "b"]


async def test_sm_8_reservations(daemon: Daemon) -> None:
    async with jobd.connect(daemon.socket) as client:
        for name, call in {
            "create_reservation_session": client.create_reservation_session("a"),
            "open_reservation_session": client.open_reservation_session("a"),
            "destroy_reservation_session": client.destroy_reservation_session("a"),
            "get_reservation_session_names": client.get_reservation_session_names(),
        }.items():
            with pytest.raises(UnsupportedOperation, match=name):
                await call
