"""Requests and answers: matching, cancelling, and what becomes of them when the daemon is restarted."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import anyio
import pytest

import jobd
from jobd.client import Job
from jobd.model.errors import (
    DrmCommunication,
    FrameTooLong,
    Internal,
    InvalidArgument,
    InvalidState,
    JobdError,
    NotFound,
    OutOfResource,
    Timeout,
)
from jobd.model.states import JobState
from jobd.protocol import frames
from tests.client.fake_daemon import FakeDaemon, fake_daemon

pytestmark = pytest.mark.anyio

TRUE = {"remote_command": "/bin/true"}
DONE = {"jobs": [{"job_id": "1", "state": "DONE", "exit_status": 0}]}
OK = {"done": ["1"], "failed": []}


def failed(error: JobdError) -> dict[str, Any]:
    """A control method's answer for one job that failed."""
    return {"done": [], "failed": [{"job_id": "1", "error": error.to_wire()}]}


async def submitted(daemon: FakeDaemon, client: jobd.Client, id: str = "1") -> Job:
    """A handle on a job that the fake daemon has taken."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(daemon.answer, "submit", {"jobs": [{"job_id": id, "state": "QUEUED"}]})
        job = await client.session.run_job(TRUE)
    return job  # noqa: RET504 (mypy takes a task group for one that swallows errors)


async def test_answers_find_their_requests_in_any_order(tmp_path: Path) -> None:
    names = {}

    async def open_session(client: jobd.Client, name: str) -> None:
        names[name] = (await client.open_job_session(name)).contact

    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        async with anyio.create_task_group() as tasks:
            for name in ("a", "b", "c"):
                tasks.start_soon(open_session, client, name)
            asked = [await daemon.next("session_open") for _ in range(3)]
            for peer, request in reversed(asked):
                name = request["params"]["name"]
                await peer.answer(request, {"name": name, "contact": name.upper()})
        assert len({id(peer) for peer, _ in asked}) == 1
    assert names == {"a": "A", "b": "B", "c": "C"}


async def test_an_error_is_the_same_class_on_this_side(tmp_path: Path) -> None:
    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refuse_next, daemon, "submit", OutOfResource("the disk is full", hint="free some"))
            with pytest.raises(OutOfResource, match="the disk is full") as caught:
                await client.session.run_job(TRUE)
        assert caught.value.hint == "free some"


async def refuse_next(daemon: FakeDaemon, method: str, error: JobdError) -> None:
    """Answer the next request with an error."""
    peer, request = await daemon.next(method)
    await peer.refuse(request, error)


async def test_a_cancelled_wait_is_cancelled_in_the_daemon_and_disturbs_no_other(tmp_path: Path) -> None:
    infos = []

    async def wait(job: Job) -> None:
        infos.append(await job.wait_terminated())

    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        job = await submitted(daemon, client)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, job)
            peer, other = await daemon.next("wait")
            async with anyio.create_task_group() as cancelled:
                cancelled.start_soon(job.wait_started)
                _, request = await daemon.next("wait")
                cancelled.cancel_scope.cancel()
            _, cancel = await daemon.next("cancel")
            assert cancel["params"] == {"id": request["id"]}
            assert "id" not in cancel
            await peer.answer(request, DONE)  # an answer that crossed the cancel
            await peer.answer(other, DONE)
        assert [info.state for info in infos] == ["DONE"]


async def test_a_wait_is_resumed_after_a_restart_with_the_time_that_is_left(tmp_path: Path) -> None:
    infos = []

    async def wait(job: Job) -> None:
        infos.append(await job.wait_for(JobState.SUSPENDED, timeout=100))

    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        job = await submitted(daemon, client)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, job)
            _, first = await daemon.next("wait")
            await daemon.restart()
            peer, second = await daemon.next("wait")
            await peer.answer(second, DONE)
        before, after = first["params"].pop("timeout"), second["params"].pop("timeout")
        assert 99 < after < before <= 100
        assert first["params"] == second["params"] == {"selection": {"ids": ["1"]}, "for": "SUSPENDED"}
        assert len(infos) == 1


async def test_timeouts_none_and_infinity_wait_for_ever_and_0_only_asks(tmp_path: Path) -> None:
    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        job = await submitted(daemon, client)
        asked = []
        for timeout in (None, math.inf, 0):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(job.wait_terminated, timeout)
                asked.append((await daemon.answer("wait", DONE)).get("timeout"))
        assert asked == [None, None, 0]
        for timeout in (-1, math.nan):
            with pytest.raises(InvalidArgument):
                await job.wait_terminated(timeout)


async def test_a_wait_times_out_though_the_daemon_is_away(tmp_path: Path) -> None:
    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        job = await submitted(daemon, client)
        await daemon.stop()
        with anyio.fail_after(10), pytest.raises(Timeout):
            await job.wait_terminated(0.05)


async def test_a_submission_is_sent_again_under_the_same_request_id(tmp_path: Path) -> None:
    jobs = []

    async def submit(client: jobd.Client) -> None:
        jobs.extend(await client.session.run_jobs([TRUE, TRUE]))

    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(submit, client)
            _, first = await daemon.next("submit")
            await daemon.restart()
            second = await daemon.answer("submit", {"jobs": [{"job_id": "4"}, {"job_id": "5"}]})
        assert first["params"] == second
        assert second["request_id"]
        assert [job.id for job in jobs] == ["4", "5"]


@pytest.mark.parametrize("where", ["argument", "template"])
async def test_a_request_id_of_the_caller_s_is_taken(tmp_path: Path, where: str) -> None:
    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        async with anyio.create_task_group() as tasks:
            if where == "argument":
                tasks.start_soon(client.session.run_job, TRUE, "mine")
            else:
                tasks.start_soon(client.session.run_job, {**TRUE, "request_id": "mine"})
            assert (await daemon.answer("submit", {"jobs": [{"job_id": "1"}]}))["request_id"] == "mine"


async def test_a_signal_is_never_sent_twice(tmp_path: Path) -> None:
    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        job = await submitted(daemon, client)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cut_next, daemon, "signal")
            with pytest.raises(DrmCommunication, match="may have been done or not"):
                await job.signal("USR1")
        daemon.assert_nothing_waits()


async def cut_next(daemon: FakeDaemon, method: str) -> None:
    """Hang up in place of an answer."""
    peer, _ = await daemon.next(method)
    await peer.cut()


CONTROL = [
    ("suspend", "SUSPENDED", "RUNNING"),
    ("resume", "RUNNING", "SUSPENDED"),
    ("hold", "QUEUED_HELD", "RUNNING"),
    ("release", "QUEUED", "QUEUED_HELD"),
    ("terminate", "FAILED", "RUNNING"),
]


@pytest.mark.parametrize(("verb", "wanted", "other"), CONTROL)
@pytest.mark.parametrize("reached", [True, False])
async def test_control_cut_off_by_a_restart_is_done_if_the_job_is_as_wanted(
    tmp_path: Path, verb: str, wanted: str, other: str, reached: bool
) -> None:
    async def script(daemon: FakeDaemon) -> None:
        await cut_next(daemon, verb)
        await daemon.answer(verb, failed(InvalidState("not now")))
        await daemon.answer("list", {"jobs": [{"job_id": "1", "state": wanted if reached else other}]})

    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        job = await submitted(daemon, client)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(script, daemon)
            if reached:
                await getattr(job, verb)()
            else:
                with pytest.raises(InvalidState):
                    await getattr(job, verb)()
        daemon.assert_nothing_waits()


@pytest.mark.parametrize("verb", [*(verb for verb, _, _ in CONTROL), "reap"])
async def test_control_that_fails_at_once_raises_its_error(tmp_path: Path, verb: str) -> None:
    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        job = await submitted(daemon, client)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(daemon.answer, verb, failed(NotFound("there is no job 1", jobs=["1"])))
            with pytest.raises(NotFound) as caught:
                await getattr(job, verb)()
        assert caught.value.jobs == ("1",)


async def test_a_reap_cut_off_by_a_restart_is_done_if_the_job_is_gone(tmp_path: Path) -> None:
    async def script(daemon: FakeDaemon) -> None:
        await cut_next(daemon, "reap")
        await refuse_next(daemon, "reap", NotFound("there is no job 1"))

    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        job = await submitted(daemon, client)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(script, daemon)
            await job.reap()
        daemon.assert_nothing_waits()


@pytest.mark.parametrize("contact", ["mine", "another's"])
async def test_a_session_whose_creation_was_cut_off_by_a_restart(tmp_path: Path, contact: str) -> None:
    async def script(daemon: FakeDaemon) -> None:
        await cut_next(daemon, "session_create")
        await refuse_next(daemon, "session_create", InvalidArgument("there is a session 's' already"))
        await daemon.answer("session_open", {"name": "s", "contact": contact})

    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(script, daemon)
            if contact == "mine":
                assert (await client.create_job_session("s", "mine")).name == "s"
            else:
                with pytest.raises(InvalidArgument):
                    await client.create_job_session("s", "mine")


async def test_a_session_whose_removal_was_cut_off_is_removed(tmp_path: Path) -> None:
    async def script(daemon: FakeDaemon) -> None:
        await cut_next(daemon, "session_destroy")
        await refuse_next(daemon, "session_destroy", NotFound("there is no session 's'"))

    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(script, daemon)
            await client.destroy_job_session("s")
        daemon.assert_nothing_waits()


async def test_a_request_on_which_the_daemon_dies_each_time_comes_to_an_end(tmp_path: Path) -> None:
    async def die(daemon: FakeDaemon) -> None:
        while True:
            await cut_next(daemon, "status")

    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path, patience=0.3) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(die, daemon)
            with pytest.raises(DrmCommunication, match="again and again"):
                await client.status()
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    "garbage", [b"what?\n", b"[1]\n", b'{"id": null, "error": {"code": -32700, "message": "no JSON"}}\n']
)
async def test_garbage_fails_what_is_under_way_and_the_next_request_has_a_new_connection(
    tmp_path: Path, garbage: bytes
) -> None:
    async def script(daemon: FakeDaemon) -> None:
        peer, _ = await daemon.next("session_list")
        await peer.raw(garbage)
        await peer.gone.wait()
        await daemon.answer("session_list", {"sessions": []})

    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(script, daemon)
            with pytest.raises(Internal):
                await client.get_job_session_names()
            assert await client.get_job_session_names() == []


async def test_a_request_that_is_too_long_is_refused_before_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobd.client.connection.MAX_FRAME", 1000)
    assert frames.MAX_FRAME > 1000
    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        with pytest.raises(FrameTooLong):
            await client.session.run_job({**TRUE, "args": ["x" * 2000]})
        await submitted(daemon, client)


async def test_more_waits_than_a_connection_takes_go_over_a_second_one(tmp_path: Path) -> None:
    count = 1010
    ended = []

    async def wait(job: Job) -> None:
        ended.append(await job.wait_terminated())

    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        job = await submitted(daemon, client)
        async with anyio.create_task_group() as tasks:
            for _ in range(count):
                tasks.start_soon(wait, job)
            asked = [await daemon.next("wait") for _ in range(count)]
            assert len({id(peer) for peer, _ in asked}) == 2
            for peer, request in asked:
                await peer.answer(request, DONE)
    assert len(ended) == count
