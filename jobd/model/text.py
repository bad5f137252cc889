"""Strings of the operating system, which need not be UTF-8, on their way through JSON. Standard library only.

Inside Python such a string is ``bytes`` or a ``str`` with surrogate escapes (PEP 383); in JSON it is a string where it
is UTF-8 and ``{"b64": "..."}`` where it is not, so that every byte survives.
"""

from __future__ import annotations

import base64
import binascii

from jobd.model.errors import InvalidArgument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WireText = str | dict[str, str]
"""A string in JSON: text, or an object with its bytes in base64."""


def wrap(value: str | bytes) -> WireText:
    """The JSON form of a string or of bytes."""
    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(raw).decode("ascii")}


def wrap_all(value: Any) -> Any:
    """The JSON form of a tree of dicts, lists, strings, bytes and numbers. Keys of dicts are left as they are."""
    if isinstance(value, str | bytes):
        return wrap(value)
    if isinstance(value, dict):
        return {key: wrap_all(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [wrap_all(item) for item in value]
    return value


def unwrap(value: Any) -> bytes:
    """The bytes of a JSON string.

    Raises:
        InvalidArgument: neither a string nor an object with valid base64.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, dict) and value.keys() == {"b64"}:
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            pass
    raise InvalidArgument("a string is expected", hint='write text, or {"b64": "..."} for bytes that are not UTF-8')


def shown(value: Any) -> str:
    """A JSON string as one safe line for a terminal: control characters and bytes that are not UTF-8 are escaped."""
    text = unwrap(value).decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
