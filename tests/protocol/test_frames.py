"""Lines are cut the same, however the stream comes in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobd.model.errors import FrameTooLong
from jobd.protocol.frames import LineBuffer

LINES = st.lists(st.binary(max_size=50).filter(lambda line: b"\n" not in line), max_size=20)


@given(LINES, st.lists(st.integers(1, 30), min_size=1))
def test_lines_survive_any_cut(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    buffer, got, position, turn = LineBuffer(), [], 0, 0
    while position < len(stream):
        step = cuts[turn % len(cuts)]
        got += buffer.feed(stream[position : position + step])
        position, turn = position + step, turn + 1
    assert got == lines


@pytest.mark.parametrize("stream", [b"x" * 11, b"ok\n" + b"x" * 11, b"x" * 11 + b"\n"])
def test_a_long_line_is_refused_before_it_is_whole(stream: bytes) -> None:
    with pytest.raises(FrameTooLong):
        LineBuffer(10).feed(stream)


def test_an_unfinished_line_waits() -> None:
    buffer = LineBuffer()
    assert buffer.feed(b"half") == []
    assert buffer.feed(b" a line\nrest") == [b"half a line"]


def test_a_long_line_may_follow_a_short_greeting_in_one_piece() -> None:
    assert LineBuffer(20, first=5).feed(b"hello\n" + b"x" * 20 + b"\n") == [b"hello", b"x" * 20]


@pytest.mark.parametrize("stream", [b"x" * 6, b"x" * 6 + b"\n"])
def test_a_long_greeting_is_refused(stream: bytes) -> None:
    with pytest.raises(FrameTooLong):
        LineBuffer(20, first=5).feed(stream)
