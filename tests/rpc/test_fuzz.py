"""Whatever comes over the wire is answered or refused; nothing of it hurts the daemon."""

from __future__ import annotations

import json
import random
import socket
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobd.model.errors import JobdError
from jobd.model.template import parse_template
from jobd.rpc.dispatch import BadMessage, Params, decode
from jobd.rpc.methods import METHODS
from tests.helpers.daemon import Daemon

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(
    ["remote_command", "args", "job_environment", "slots", "array", "after", "start_time", "labels"]
)


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_a_line_is_a_request_or_a_bad_message(line: bytes) -> None:
    try:
        envelope = decode(line)
    except BadMessage as error:
        assert error.to_wire()["code"] in (-32700, -32600)  # noqa: PT017 (either is right)
        return
    assert isinstance(envelope.method, str)


@given(st.sampled_from(sorted(METHODS)), JSON)
def test_params_are_of_the_method_s_type_or_refused(method: str, value: Any) -> None:
    try:
        params = msgspec.json.decode(json.dumps(value), type=METHODS[method].params)
    except msgspec.DecodeError:
        return
    assert isinstance(params, Params)


@given(st.dictionaries(NAMES | st.text(max_size=8), JSON, max_size=5))
def test_a_template_is_one_or_is_refused(raw: dict[str, Any]) -> None:
    try:
        template = parse_template(raw)
    except JobdError as error:
        assert error.exit_code == 2  # noqa: PT017 (the other outcome is as good)
        return
    assert template.remote_command is not None


@pytest.mark.parametrize("seed", range(3))
def test_a_daemon_outlives_random_requests(daemon: Daemon, seed: int) -> None:
    """Known methods with mutilated parameters, one after the other on connections that are cut at any point."""
    chance = random.Random(seed)
    values: list[Any] = [
        None,
        0,
        -1,
        2**70,
        1.5,
        "",
        "x",
        "last",
        "1",
        [],
        {},
        {"b64": "?"},
        {"ids": ["0"]},
        {"all": True},
        [[]],
    ]
    keys = [
        "selection",
        "job",
        "jobs",
        "templates",
        "timeout",
        "for",
        "since",
        "signal",
        "name",
        "follow",
        "streams",
        "id",
    ]
    methods = [method for method in METHODS if method != "shutdown"]
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(20)
            channel.connect(str(daemon.socket))
            lines = [{"id": 0, "method": "hello", "params": {"protocol": [1, 1]}}]
            for number in range(1, 20):
                params = {chance.choice(keys): chance.choice(values) for _ in range(chance.randrange(4))}
                lines.append({"id": number, "method": chance.choice(methods), "params": params})
            data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
            channel.sendall(data[: chance.randrange(len(data))] if chance.random() < 0.5 else data)
    assert daemon.jobd("run", "--", "echo", "fine").stdout == b"fine\n"
    assert "Traceback" not in daemon.logged()
