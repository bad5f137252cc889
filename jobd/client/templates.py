"""Templates on their way to the wire: paths and odd strings as people have them in Python."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from jobd.model.text import wrap


def wire_template(template: msgspec.Struct) -> dict[str, Any]:
    """The attributes that are set, in JSON's types. Strings may be str with surrogate escapes, bytes or paths."""
    values = msgspec.structs.asdict(template)
    return {name: _plain(value) for name, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, str | bytes):
        return wrap(value)
    if isinstance(value, os.PathLike):
        return wrap(os.fspath(value))
    if isinstance(value, msgspec.Struct):
        return wire_template(value)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    isoformat = getattr(value, "isoformat", None)
    return value if isoformat is None else isoformat()
