"""Every byte survives the way through JSON, and none of them does harm on a terminal."""

from __future__ import annotations

import json
import os

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobd.model.errors import InvalidArgument
from jobd.model.template import Text, to_bytes, to_text
from jobd.model.text import shown, unwrap, wrap, wrap_all


@given(st.binary())
def test_bytes_survive(raw: bytes) -> None:
    assert unwrap(json.loads(json.dumps(wrap(raw)))) == raw
    assert unwrap(wrap(os.fsdecode(raw))) == raw


@given(st.binary())
def test_the_daemon_reads_what_clients_write(raw: bytes) -> None:
    text: Text = msgspec.json.decode(json.dumps(wrap(raw)), type=Text)
    assert to_bytes(text) == raw
    assert to_text(raw) == text


@given(st.binary())
def test_what_is_shown_is_one_printable_line(raw: bytes) -> None:
    line = shown(wrap(raw))
    assert line.isprintable()
    line.encode("utf-8")


@pytest.mark.parametrize("value", [None, 3, [], {"b64": "?"}, {"b64": 3}, {"b64": "QQ==", "x": 1}, {}])
def test_what_is_no_string(value: object) -> None:
    with pytest.raises(InvalidArgument):
        unwrap(value)


def test_a_tree_is_wrapped_whole() -> None:
    assert wrap_all({"a": [b"\xff", "x", 3, None], "b": ("\udcff",)}) == {
        "a": [{"b64": "/w=="}, "x", 3, None],
        "b": [{"b64": "/w=="}],
    }
