"""Durations and sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobd.model.errors import InvalidArgument
from jobd.model.units import parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("0.2", 0.2),
        ("90s", 90),
        ("1h30m", 5400),
        ("00:01:30", 90),
        ("30d", 2592000),
        ("100:00:00", 360000),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "x", "-1", "1h30", "1:2", "1e3", "1 h", "٣", "inf", "nan", "00:60:00"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InvalidArgument, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1000", 1000), ("512M", 512 << 20), ("2GiB", 2 << 30), ("1.5k", 1536), ("1TB", 1 << 40), ("0", 0)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "M", "-1", "1X", "1e3", "1 MM"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(InvalidArgument, match="size"):
        parse_size(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_duration, parse_size):
        try:
            found = parse(text)
        except InvalidArgument:
            continue
        assert found >= 0
