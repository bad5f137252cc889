"""However much output, however rude a client: nobody else pays for it."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.helpers.daemon import Daemon

MEGABYTE = 1 << 20


@contextmanager
def raw(daemon: Daemon) -> Iterator[socket.socket]:
    """A bare connection."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(20)
        channel.connect(str(daemon.socket))
        yield channel


def hello() -> bytes:
    """A greeting."""
    message = {"jsonrpc": "2.0", "id": 0, "method": "hello", "params": {"protocol": [1, 1], "program": "test"}}
    return json.dumps(message).encode() + b"\n"


def assert_alive(daemon: Daemon) -> None:
    """Everybody else is served as ever."""
    began = time.monotonic()
    assert daemon.jobd("run", "--", "echo", "fine").stdout == b"fine\n"
    assert time.monotonic() - began < 10


@pytest.mark.slow
def test_a_gigabyte_of_output_is_not_held(daemon: Daemon) -> None:
    daemon.jobd("run", "--", "true")
    before = daemon.memory()
    command = ["run", "--", "sh", "-c", "head -c 1000000000 /dev/zero"]
    running = daemon.popen(*command)
    assert running.stdout is not None
    size = 0
    while data := running.stdout.read(1 << 20):
        size += len(data)
    running.communicate()
    assert running.returncode == 0
    assert size == 1_000_000_000
    assert daemon.memory() - before < 32 * MEGABYTE


def test_a_line_of_100_megabytes(daemon: Daemon) -> None:
    id = daemon.submit("--", "sh", "-c", "echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert daemon.jobd("wait", id).returncode == 0
    before = daemon.memory()
    assert daemon.jobd("logs", "-n", "1", id).stdout == b"last\n"
    assert len(daemon.jobd("logs", "-n", "2", id).stdout) == 100_000_001 + 5
    assert daemon.memory() - before < 32 * MEGABYTE


@pytest.mark.parametrize(
    "data",
    [b"garbage\n", b"\xff\xfe\n", b"{}\n", b'{"method":"hello"}\n', b'{"half', b"[1]\n", b"\n" * 10, b"x" * 100_000],
)
def test_a_stranger_who_sends_nonsense(daemon: Daemon, data: bytes) -> None:
    with raw(daemon) as channel:
        channel.sendall(data)
        assert_alive(daemon)


def test_a_client_that_sends_nonsense_after_its_hello(daemon: Daemon) -> None:
    with raw(daemon) as channel, channel.makefile("rb") as lines:
        channel.sendall(
            hello() + b"garbage\n" + b'{"id": 1, "method": "nothing"}\n' + b'{"id": 2, "method": "status"}\n'
        )
        answers = [json.loads(next(lines)) for _ in range(4)]
        codes = {answer["id"]: answer.get("error", {}).get("code") for answer in answers}
        assert codes == {0: None, None: -32700, 1: -32601, 2: None}
        assert_alive(daemon)


def test_a_line_without_end_is_cut_off(daemon: Daemon) -> None:
    """4 GB are announced by nobody: the line is cut off once it is longer than any message may be."""
    with raw(daemon) as channel:
        channel.sendall(hello())
        sent = 0
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while sent < 4 << 30:
                sent += channel.send(b"x" * MEGABYTE)
        assert sent <= 80 * MEGABYTE
        assert_alive(daemon)


def test_a_client_that_stops_reading_events(daemon: Daemon) -> None:
    with raw(daemon) as channel:
        channel.sendall(hello() + b'{"id": 1, "method": "events", "params": {"since": 0, "follow": true}}\n')
        templates = [{"remote_command": "/bin/true", "output_path": "/dev/null", "error_path": "/dev/null"}] * 2000
        before = daemon.memory()
        rows = daemon.request("submit", {"templates": templates})["jobs"]
        assert daemon.jobd("wait", f"{rows[0]['job_id']}-{rows[-1]['job_id']}").returncode == 0
        assert daemon.memory() - before < 32 * MEGABYTE
        channel.settimeout(20)
        numbers: list[int] = []
        with channel.makefile("rb") as lines:
            while len(numbers) < 6000:
                message = json.loads(next(lines))
                if message.get("method") == "event":
                    numbers.append(message["params"]["event"]["seq"])
        assert numbers == list(range(1, 6001))


def test_a_thousand_clients_at_once(daemon: Daemon) -> None:
    with ExitStack() as stack:
        channels = [stack.enter_context(raw(daemon)) for _ in range(1000)]
        for channel in channels:
            channel.sendall(hello())
        for channel in channels:
            assert b'"protocol":1' in channel.recv(4096)
        assert_alive(daemon)


def test_many_requests_on_one_connection(daemon: Daemon) -> None:
    requests = b"".join(b'{"id": %d, "method": "status", "params": {}}\n' % number for number in range(1, 501))
    with raw(daemon) as channel, channel.makefile("rb") as lines:
        channel.sendall(hello() + requests)
        assert {json.loads(next(lines))["id"] for _ in range(501)} == set(range(501))


def test_two_clients_with_one_request_id(daemon: Daemon) -> None:
    """At once on two connections, and again after the job was reaped: one job, the same answer."""
    params = {"templates": [{"remote_command": "/bin/true"}], "request_id": "same"}
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "submit", "params": params}).encode() + b"\n"
    with raw(daemon) as first, raw(daemon) as second, first.makefile("rb") as one, second.makefile("rb") as two:
        first.sendall(hello() + message)
        second.sendall(hello() + message)
        for lines in (one, two):
            next(lines)
            assert json.loads(next(lines))["result"]["jobs"][0]["job_id"] == "1"
    assert daemon.jobd("wait", "1").returncode == 0
    assert daemon.jobd("reap", "1").returncode == 0
    assert daemon.request("submit", params)["jobs"] == [{"job_id": "1", "state": None}]
    other = daemon.jobd("submit", "--request-id", "same", "--", "false")
    assert other.returncode == 2
    assert daemon.submit("--", "true") == "2"
