"""Templates as JSON and TOML give them."""

from __future__ import annotations

import msgspec
import pytest

from jobd.model.errors import InvalidArgument
from jobd.model.template import JobTemplate, RawBytes, parse_template


def test_only_the_command_must_be_set() -> None:
    template = parse_template({"remote_command": "true"})
    unset = [name for name in JobTemplate.__struct_fields__ if name != "remote_command"]
    assert all(getattr(template, name) is None for name in unset)


def test_units_are_read_as_people_write_them() -> None:
    template = parse_template({"remote_command": "x", "time_limit": "1h", "memory": "2GiB"})
    assert (template.time_limit, template.memory) == (3600, 2 << 30)


@pytest.mark.parametrize(
    ("raw", "message", "hint"),
    [
        ({}, "remote_command", None),
        ({"remote_command": "x", "job_nam": "y"}, "job_nam", "did you mean job_name?"),
        ({"remote_command": 3}, "remote_command", None),
        ({"remote_command": "x", "args": "y"}, "args", None),
        ({"remote_command": "x", "time_limit": "soon"}, "duration", "write 90"),
        ([], "object", None),
    ],
)
def test_what_is_no_template(raw: object, message: str, hint: str | None) -> None:
    with pytest.raises(InvalidArgument, match=message) as caught:
        parse_template(raw)
    assert hint is None or hint in str(caught.value.hint)


def test_a_template_survives_its_json() -> None:
    template = parse_template(
        {
            "remote_command": {"b64": "/w=="},
            "args": ["", "a\nb", {"b64": "/w=="}],
            "job_environment": {"A": {"b64": "/w=="}},
            "start_time": "2030-01-01T00:00:00Z",
            "array": {"begin": 1, "end": 3},
        }
    )
    assert template.args == ("", "a\nb", RawBytes("/w=="))
    assert msgspec.json.decode(msgspec.json.encode(template), type=JobTemplate) == template
