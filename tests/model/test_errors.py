"""Errors keep their kind across the wire."""

from __future__ import annotations

import json

import pytest

from jobd.model.errors import ALL_ERRORS, ERRORS, Internal, JobdError, from_wire


@pytest.mark.parametrize("kind", ERRORS.values(), ids=lambda kind: kind.__name__)
def test_an_error_survives_the_wire(kind: type[JobdError]) -> None:
    error = from_wire(json.loads(json.dumps(kind("what", hint="do this", jobs=["1", "2.3"]).to_wire())))
    assert type(error) is kind
    assert (error.message, error.hint, error.jobs) == ("what", "do this", ("1", "2.3"))
    assert error.name == kind.__name__


def test_codes_are_unique() -> None:
    assert len(ERRORS) == len(ALL_ERRORS)


def test_an_unknown_code_keeps_its_text() -> None:
    error = from_wire({"code": 4711, "message": "from the future"})
    assert type(error) is Internal
    assert error.message == "from the future"
