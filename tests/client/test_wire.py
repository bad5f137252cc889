"""Templates as callers write them, on their way to the daemon."""

from __future__ import annotations

import json
import math
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from signal import Signals
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobd import JobInfo, JobTemplate
from jobd.client.wire import to_wire
from jobd.model.errors import InvalidArgument
from jobd.model.template import Dependency, RawBytes, parse_template, to_bytes


class Odd:
    """A path that is bytes."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def __fspath__(self) -> bytes:
        return self.raw


@given(st.binary(min_size=1), st.lists(st.binary()))
def test_every_byte_of_a_template_arrives(command: bytes, args: list[bytes]) -> None:
    for form in (bytes, bytearray, os.fsdecode, Odd):
        raw = to_wire({"remote_command": form(command), "args": [form(arg) for arg in args]})
        template = parse_template(json.loads(json.dumps(raw)))
        assert to_bytes(template.remote_command) == command
        assert [to_bytes(arg) for arg in template.args or ()] == args


def test_a_template_arrives_as_it_was_and_without_what_is_unset() -> None:
    template = JobTemplate(
        remote_command="/bin/sh",
        args=("-c", RawBytes("/w==")),
        job_environment={"A": "b"},
        start_time=datetime(2026, 1, 1, tzinfo=UTC),
        after=(Dependency(job="3"),),
        time_limit=1.5,
        slots=2,
        join_files=False,
    )
    raw = to_wire(template)
    assert "job_name" not in raw
    assert parse_template(json.loads(json.dumps(raw))) == template


def test_the_forms_of_python() -> None:
    assert to_wire(Path("/a/b")) == "/a/b"
    assert to_wire(timedelta(minutes=2)) == 120
    assert to_wire(Signals.SIGUSR1) == 10
    assert to_wire(datetime(2026, 1, 1, 12, tzinfo=UTC)) == "2026-01-01T12:00:00Z"
    assert to_wire(datetime(2026, 1, 1, 12)).endswith("Z")  # noqa: DTZ001  (local time is meant)
    assert to_wire(JobInfo(exit_status=0)) == {"exit_status": 0}
    assert to_wire({"a": None}) == {"a": None}


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), {1, 2}, {1: 2}, {"\udcff": 1}, {b"\xff": 1}])
def test_what_json_has_no_form_for_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument):
        to_wire({"labels": value})
