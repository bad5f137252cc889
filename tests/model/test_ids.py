"""Ids as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobd.model.errors import InvalidArgument
from jobd.model.ids import JobId, parse_id

NUMBERS = st.integers(1, 2**63 - 1)


@given(NUMBERS, st.one_of(st.just(0), NUMBERS))
def test_an_id_survives_being_written(job: int, task: int) -> None:
    assert parse_id(str(JobId(job, task))) == JobId(job, task)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-1",
        "01",
        "42.",
        ".7",
        "42.0",
        "42.07",
        "4 2",
        "42\n",
        "4_2",
        "12.asdf",
        "..",
        "٤٢",
        "9" * 20,
        "1.1.1",
    ],
)
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_id(text)


@given(st.text())
def test_any_text_is_an_id_or_an_error(text: str) -> None:
    try:
        found = str(parse_id(text))
    except InvalidArgument:
        return
    assert found == text
