"""Events and output: in order, once each, whatever becomes of the connection; and slow readers harm nobody."""

from __future__ import annotations

import base64
import gc
from pathlib import Path
from typing import Any

import anyio
import pytest

import jobd
from jobd.client import Event, Job, Truncated
from jobd.model.errors import NotFound
from jobd.model.states import JobState
from tests.client.fake_daemon import FakeDaemon, Message, Peer, fake_daemon

pytestmark = pytest.mark.anyio


def event(seq: int, after: str = "RUNNING", **more: Any) -> Message:
    """An event as it comes."""
    return {
        "seq": seq,
        "job_id": "7",
        "from": "QUEUED",
        "to": after,
        "sub_state": None,
        "at": "2026-01-01T00:00:00Z",
        **more,
    }


async def send_events(peer: Peer, request: Message, *numbers: int) -> None:
    """Send events of these numbers."""
    for number in numbers:
        await peer.notify(request, "event", {"event": event(number)})


def numbers(items: list[Event | Truncated]) -> list[int]:
    """The sequence numbers; a truncation is shown as a negative one."""
    return [item.seq if isinstance(item, Event) else -item.first for item in items]


async def job_of(daemon: FakeDaemon, client: jobd.Client) -> Job:
    """A handle on job 7."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(daemon.answer, "submit", {"jobs": [{"job_id": "7"}]})
        job = await client.session.run_job({"remote_command": "true"})
    return job  # noqa: RET504 (mypy takes a task group for one that swallows errors)


async def test_an_event_has_types(tmp_path: Path) -> None:
    async def script(daemon: FakeDaemon) -> None:
        peer, request = await daemon.next("events")
        assert request["params"] == {"since": 3, "job": "7", "follow": False}
        await peer.answer(request, {"since": 3})
        await peer.notify(request, "event", {"event": event(4, "FAILED", tasks="1-5") | {"from": None}})
        await peer.notify(request, "event_end", {})

    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(script, daemon)
            found = [item async for item in client.events(since=3, job="7", follow=False)]
    [item] = found
    assert isinstance(item, Event)
    assert (item.seq, item.job_id, item.before, item.after) == (4, "7", None, JobState.FAILED)
    assert (item.at.isoformat(), item.tasks) == ("2026-01-01T00:00:00+00:00", "1-5")


async def test_events_go_on_after_the_last_one_seen(tmp_path: Path) -> None:
    async def script(daemon: FakeDaemon) -> None:
        peer, request = await daemon.next("events")
        await peer.answer(request, {"since": 0})
        await send_events(peer, request, 1, 2)
        await daemon.restart()
        peer, request = await daemon.next("events")
        assert request["params"]["since"] == 2
        await peer.answer(request, {"since": 2})
        await peer.notify(request, "event", {"event": {"truncated": True, "first": 10}})
        await daemon.restart()
        peer, request = await daemon.next("events")
        assert request["params"]["since"] == 9
        await peer.answer(request, {"since": 9})
        await send_events(peer, request, 10, 11)
        await peer.notify(request, "event_end", {})

    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(script, daemon)
            found = [item async for item in client.events(since=0)]
    assert numbers(found) == [1, 2, -10, 10, 11]


async def test_events_from_now_lose_none_when_cut_off_before_the_first(tmp_path: Path) -> None:
    async def script(daemon: FakeDaemon) -> None:
        peer, request = await daemon.next("events")
        assert request["params"]["since"] is None
        await peer.answer(request, {"since": 41})
        await daemon.restart()
        peer, request = await daemon.next("events")
        assert request["params"]["since"] == 41
        await peer.answer(request, {"since": 41})
        await send_events(peer, request, 42)

    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(script, daemon)
            async with client.events() as events:
                assert numbers([await anext(events)]) == [42]


async def test_entering_a_stream_begins_it(tmp_path: Path) -> None:
    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(daemon.answer, "events", {"since": 0})
            async with client.events():
                daemon.assert_nothing_waits()


async def test_an_interrupted_read_loses_nothing(tmp_path: Path) -> None:
    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        asked: list[tuple[Peer, Message]] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(begin, daemon, asked)
            events = await client.events(since=0).__aenter__()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(events.__anext__)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        await send_events(*asked[0], 1, 2)
        assert numbers([await anext(events), await anext(events)]) == [1, 2]
        await events.aclose()
    assert len(daemon.peers) == 2


async def begin(daemon: FakeDaemon, asked: list[tuple[Peer, Message]]) -> None:
    """Answer the next ``events``, and keep it."""
    peer, request = await daemon.next("events")
    await peer.answer(request, {"since": 0})
    asked.append((peer, request))


async def test_the_error_of_a_stream_is_raised_where_it_is_read(tmp_path: Path) -> None:
    async def script(daemon: FakeDaemon) -> None:
        peer, request = await daemon.next("events")
        await peer.refuse(request, NotFound("there is no job 9"))

    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(script, daemon)
            with pytest.raises(NotFound):
                await anext(client.events(job="9"))


async def test_a_slow_reader_stops_the_sender_and_nothing_else(tmp_path: Path) -> None:
    sent = 0
    many = 50_000

    async def flood(daemon: FakeDaemon) -> None:
        nonlocal sent
        peer, request = await daemon.next("events")
        await peer.answer(request, {"since": 0})
        while sent < many:
            await send_events(peer, request, sent + 1)
            sent += 1

    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flood, daemon)
            async with client.events(since=0) as events:
                await anyio.wait_all_tasks_blocked()
                stuck = sent
                assert stuck < many
                # A reader may ask for other things in its loop.
                tasks.start_soon(daemon.answer, "session_list", {"sessions": []})
                assert await client.get_job_session_names() == []
                assert sent == stuck
                found = [await anext(events) for _ in range(many)]
    assert numbers(found) == list(range(1, many + 1))


async def test_a_stream_that_is_left_by_break_is_closed(tmp_path: Path) -> None:
    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer_with_one, daemon)
            async for _ in client.events(since=0):
                break
        gc.collect()
        with anyio.fail_after(5):
            await daemon.peers[-1].gone.wait()
        assert len(daemon.peers) == 2


async def answer_with_one(daemon: FakeDaemon) -> None:
    """Answer the next ``events`` with one event."""
    peer, request = await daemon.next("events")
    await peer.answer(request, {"since": 0})
    await send_events(peer, request, 1)


async def test_output_goes_on_at_the_byte_that_was_reached(tmp_path: Path) -> None:
    odd = bytes(range(256))

    async def script(daemon: FakeDaemon) -> None:
        peer, request = await daemon.next("logs")
        assert request["params"] == {
            "job": "7",
            "streams": ["stderr"],
            "follow": True,
            "attempt": None,
            "lines": 2,
        }
        await peer.answer(request, {})
        await daemon.restart()
        peer, request = await daemon.next("logs")
        assert request["params"]["lines"] == 2  # nothing had come yet
        await peer.answer(request, {})
        await peer.notify(request, "output", {"stream": "stderr", "offset": 100, "data": "grüße\n"})
        await daemon.restart()
        peer, request = await daemon.next("logs")
        assert "lines" not in request["params"]
        assert request["params"]["offsets"] == {"stderr": 108}
        await peer.answer(request, {})
        data = {"b64": base64.b64encode(odd).decode()}
        await peer.notify(request, "output", {"stream": "stderr", "offset": 108, "data": data})
        await peer.notify(request, "output_end", {"job": None})

    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        job = await job_of(daemon, client)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(script, daemon)
            output = b"".join([piece async for piece in job.logs("stderr", follow=True, lines=2)])
    assert output == "grüße\n".encode() + odd


async def test_output_that_can_t_be_read_is_an_error_after_what_could(tmp_path: Path) -> None:
    async def script(daemon: FakeDaemon) -> None:
        peer, request = await daemon.next("logs")
        end = {"id": request["id"], "job": None, "error": NotFound("the file is gone").to_wire()}
        await peer.send(
            {"jsonrpc": "2.0", "id": request["id"], "result": {}},
            {
                "method": "output",
                "params": {"id": request["id"], "stream": "stdout", "offset": 0, "data": "some"},
            },
            {"method": "output_end", "params": end},
        )

    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        job = await job_of(daemon, client)
        output = job.logs()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(script, daemon)
            assert await anext(output) == b"some"
            with pytest.raises(NotFound, match="the file is gone"):
                await anext(output)
            with pytest.raises(StopAsyncIteration):
                await anext(output)
