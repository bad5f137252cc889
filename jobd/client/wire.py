"""What callers pass, in the form that JSON takes: any string of the operating system, times, enums and structs."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import msgspec

from jobd.model import text
from jobd.model.errors import InvalidArgument


def to_wire(value: Any) -> Any:  # noqa: C901 (one case a line)
    """The JSON form of a value; fields of structs that are None are left out.

    A str with surrogate escapes, bytes and an ``os.PathLike`` become text or ``{"b64": ...}``, a datetime RFC 3339 in
    UTC (a naive one is local time), a timedelta seconds.

    Raises:
        InvalidArgument: JSON has no form for it. It is found here and not in the daemon, which could not even tell
            which request a line was that is no JSON.
    """
    match value:
        case Enum():
            return to_wire(value.value)
        case None | bool() | int():
            return value
        case float():
            return _finite(value)
        case str() | bytes():
            return text.wrap(value)
        case bytearray():
            return text.wrap(bytes(value))
        case os.PathLike():
            return text.wrap(os.fspath(value))
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case timedelta():
            return value.total_seconds()
        case msgspec.Struct():
            return _fields((name, getattr(value, name)) for name in value.__struct_fields__)
        case Mapping():
            return {_name(name): to_wire(item) for name, item in value.items()}
        case list() | tuple():
            return [to_wire(item) for item in value]
    raise InvalidArgument(f"a {type(value).__name__} can't be sent", hint="use text, numbers, lists and dicts")


def _fields(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: to_wire(value) for name, value in fields if value is not None}


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise InvalidArgument(f"{value} is not a number that can be sent")
    return value


def _name(name: Any) -> str:
    """A key: of an attribute, a label, an environment variable."""
    wrapped = text.wrap(name) if isinstance(name, str | bytes) else None
    if not isinstance(wrapped, str):
        raise InvalidArgument(f"the name {name!r} is not UTF-8 text")
    return wrapped
