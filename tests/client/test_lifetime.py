"""Connecting, closing, and who may start the daemon."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import anyio
import pytest

import jobd
from jobd import paths
from jobd.client.transport import _unreachable
from jobd.model.errors import (
    DeniedByDrms,
    DrmCommunication,
    Internal,
    InvalidArgument,
    InvalidSession,
    InvalidState,
    OutOfResource,
    ProtocolMismatch,
)
from tests.client.fake_daemon import FakeDaemon, fake_daemon

pytestmark = pytest.mark.anyio


class Caught:
    """The error that a task met."""

    error: Exception | None = None


async def iterate(events: jobd.client.EventStream, caught: Caught) -> None:
    """Read a stream until it fails."""
    try:
        async for _ in events:
            pass
    except InvalidSession as error:
        caught.error = error


async def wait(job: jobd.Job, caught: Caught) -> None:
    """Wait until it fails."""
    try:
        await job.wait_terminated()
    except InvalidSession as error:
        caught.error = error


async def test_the_greeting_tells_the_versions(tmp_path: Path) -> None:
    async with fake_daemon(tmp_path) as daemon:
        daemon.hello["version"] = "3.14.1"
        async with jobd.connect(daemon.path) as client:
            assert daemon.greetings == [{"protocol": [1, 1], "program": f"jobd.client {jobd.__version__}"}]
            assert client.drms_version == ("3", "14")
            assert client.drmaa_version == tuple(jobd.__version__.split(".")[:2])


async def test_no_common_protocol(tmp_path: Path) -> None:
    async with fake_daemon(tmp_path) as daemon:
        daemon.hello["protocol"] = 2
        with pytest.raises(ProtocolMismatch):
            async with jobd.connect(daemon.path):
                pytest.fail("connected")


async def test_a_greeting_that_makes_no_sense(tmp_path: Path) -> None:
    async with fake_daemon(tmp_path) as daemon:
        del daemon.hello["store"]
        with pytest.raises(Internal, match="store"):
            async with jobd.connect(daemon.path):
                pytest.fail("connected")


async def test_a_daemon_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobd.client.transport.ANSWERS_WITHIN", 0.1)
    async with fake_daemon(tmp_path) as daemon:
        daemon.mute = True
        with anyio.fail_after(5), pytest.raises(DrmCommunication, match="does not answer"):
            async with jobd.connect(daemon.path):
                pytest.fail("connected")


async def test_what_is_raised_inside_comes_out_as_it_is(tmp_path: Path) -> None:
    async with fake_daemon(tmp_path) as daemon:
        for error in (InvalidState("mine"), ExceptionGroup("mine", [ValueError()]), KeyboardInterrupt()):
            with pytest.raises(type(error)) as caught:
                async with jobd.connect(daemon.path):
                    raise error
            assert caught.value is error


async def test_a_cancelled_client_closes_its_connections(tmp_path: Path) -> None:
    async with fake_daemon(tmp_path) as daemon:
        with anyio.CancelScope() as scope:
            async with jobd.connect(daemon.path) as client, anyio.create_task_group() as tasks:
                tasks.start_soon(subscribe, daemon)
                async with client.events():
                    scope.cancel()
                    await anyio.sleep_forever()
        assert scope.cancelled_caught
        for peer in daemon.peers:
            await peer.gone.wait()


async def subscribe(daemon: FakeDaemon) -> None:
    """Answer the next ``events`` request."""
    await daemon.answer("events", {"since": 0})


async def test_closing_twice_and_calls_after_it(tmp_path: Path) -> None:
    async with fake_daemon(tmp_path) as daemon:
        async with jobd.connect(daemon.path) as client:
            await client.aclose()
            await client.aclose()
            for call in (client.status, client.session.get_jobs, anext_of(client)):
                with pytest.raises(InvalidSession):
                    await call()
            await anyio.lowlevel.checkpoint()  # closing cancels nothing of the caller's
        with pytest.raises(InvalidSession):
            await client.status()


def anext_of(client: jobd.Client):  # type: ignore[no-untyped-def]
    """A call that reads one event."""
    return client.events().__anext__


async def test_closing_wakes_whoever_waits(tmp_path: Path) -> None:
    waited, iterated = Caught(), Caught()
    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(daemon.answer, "submit", {"jobs": [{"job_id": "1"}]})
            job = await client.session.run_job({"remote_command": "true"})
            tasks.start_soon(subscribe, daemon)
            events = await client.events().__aenter__()
            tasks.start_soon(iterate, events, iterated)
            tasks.start_soon(wait, job, waited)
            await daemon.next("wait")
            await anyio.wait_all_tasks_blocked()
            await client.aclose()
    assert waited.error is not None
    assert iterated.error is not None


async def test_closing_wakes_whoever_waits_for_the_daemon_to_come_back(tmp_path: Path) -> None:
    waited, iterated = Caught(), Caught()
    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(daemon.answer, "submit", {"jobs": [{"job_id": "1"}]})
            job = await client.session.run_job({"remote_command": "true"})
            tasks.start_soon(subscribe, daemon)
            tasks.start_soon(iterate, await client.events().__aenter__(), iterated)
            tasks.start_soon(wait, job, waited)
            await daemon.next("wait")
            await daemon.stop()
            await anyio.wait_all_tasks_blocked()
            await client.aclose()
    assert waited.error is not None
    assert iterated.error is not None


async def test_nobody_there_is_an_error_at_once(tmp_path: Path) -> None:
    with anyio.fail_after(2), pytest.raises(DrmCommunication, match="no daemon answers"):
        async with jobd.connect(tmp_path / "run" / "jobd.sock", autostart=False):
            pytest.fail("connected")


async def test_a_socket_that_refuses_is_tried_for_a_while(tmp_path: Path) -> None:
    async with fake_daemon(tmp_path) as daemon:
        await daemon.stop(keep_path=True)
        with anyio.fail_after(5), pytest.raises(DrmCommunication):
            async with jobd.connect(daemon.path, autostart=False, patience=0.2):
                pytest.fail("connected")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(come_back, daemon)
            async with jobd.connect(daemon.path, autostart=False) as client:
                assert client.drms_version == ("0", "1")


async def come_back(daemon: FakeDaemon) -> None:
    """Listen again, once the client has had to try."""
    await anyio.wait_all_tasks_blocked()
    daemon.path.unlink()
    await daemon.start()


async def test_a_connection_that_is_cut_in_the_greeting_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fake_daemon(tmp_path) as daemon:
        daemon.cut_greetings = 2
        starter = Starter(tmp_path / "nowhere")
        monkeypatch.setattr("jobd.autostart.start", starter.start)
        async with jobd.connect(daemon.path, autostart=True):
            assert len(daemon.greetings) == 3
        assert starter.count == 0  # somebody listens there


async def test_a_daemon_that_stays_away_is_given_up(tmp_path: Path) -> None:
    async with (
        fake_daemon(tmp_path) as daemon,
        jobd.connect(daemon.path, patience=0.2, autostart=False) as client,
    ):
        await daemon.stop()
        with anyio.fail_after(5), pytest.raises(DrmCommunication):
            await client.status()
        await daemon.start()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(daemon.answer, "session_list", {"sessions": [{"name": "a"}]})
            assert await client.get_job_session_names() == ["a"]


async def test_another_database_behind_the_socket_is_refused(tmp_path: Path) -> None:
    async with fake_daemon(tmp_path) as daemon, jobd.connect(daemon.path) as client:
        daemon.hello["store"] = "bb"
        await daemon.restart()
        with pytest.raises(DrmCommunication, match="another database"):
            await client.status()


class Starter:
    """In the place of autostart: puts the socket where it is looked for."""

    def __init__(self, real: Path) -> None:
        self.real = real
        self.count = 0

    def start(self, place: paths.Place) -> None:
        """Count, and start."""
        self.count += 1
        os.rename(self.real, place.socket)


async def test_a_daemon_that_is_not_there_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_daemon(tmp_path) as daemon:
        starter = Starter(tmp_path / "elsewhere")
        os.rename(daemon.path, starter.real)
        monkeypatch.setattr("jobd.autostart.start", starter.start)
        async with jobd.connect(state_dir=tmp_path, autostart=True):
            assert starter.count == 1


@pytest.mark.parametrize("variable", ["0", "1"])
async def test_the_environment_can_forbid_to_start_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    started: list[paths.Place] = []
    monkeypatch.setattr("jobd.autostart.start", started.append)
    monkeypatch.setattr("jobd.client.transport.STARTS_WITHIN", 0.1)
    monkeypatch.setenv("JOBD_NO_AUTOSTART", variable)
    with pytest.raises(DrmCommunication):
        async with jobd.connect(state_dir=tmp_path, patience=0.1):
            pytest.fail("connected")
    assert len(started) == (0 if variable == "1" else 1)


async def test_what_only_resumes_does_not_start_it_and_what_is_new_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        fake_daemon(tmp_path) as daemon,
        jobd.connect(daemon.path, patience=0.5, autostart=True) as client,
    ):
        starter = Starter(tmp_path / "elsewhere")
        monkeypatch.setattr("jobd.autostart.start", starter.start)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(daemon.answer, "submit", {"jobs": [{"job_id": "1"}]})
            job = await client.session.run_job({"remote_command": "true"})
            tasks.start_soon(stop_at, daemon, "wait", starter.real)
            with pytest.raises(DrmCommunication):
                await job.wait_terminated()
            assert starter.count == 0
            tasks.start_soon(daemon.answer, "session_list", {"sessions": []})
            await client.get_job_session_names()
            assert starter.count == 1


async def stop_at(daemon: FakeDaemon, method: str, elsewhere: Path) -> None:
    """Stop in place of an answer, and listen again where nobody looks."""
    await daemon.next(method)
    await daemon.restart()
    os.rename(daemon.path, elsewhere)


def test_socket_and_state_folder_are_not_both_given() -> None:
    with pytest.raises(InvalidArgument):
        jobd.client.client._place("a", "b")


def test_a_state_folder_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JOBD_SOCKET", "/elsewhere/jobd.sock")
    assert jobd.client.client._place(None, tmp_path).socket == tmp_path / "run" / "jobd.sock"


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EACCES, DeniedByDrms),
        (errno.EMFILE, OutOfResource),
        (errno.ENOENT, DrmCommunication),
        (errno.ECONNREFUSED, DrmCommunication),
    ],
)
def test_why_there_is_no_connection(number: int, kind: type[Exception]) -> None:
    place = paths.Place(Path("/s"), Path("/s/run/jobd.sock"), system=False, autostart=True)
    error = _unreachable(place, OSError(number, os.strerror(number)))
    assert isinstance(error, kind)
    assert "/s/run/jobd.sock" in error.message
