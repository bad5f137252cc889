"""Durations and sizes as people write them. Standard library only."""

from __future__ import annotations

import math
import re

from jobd.model.errors import InvalidArgument

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhdw]?)", re.ASCII)
_CLOCK = re.compile(r"([0-9]+):([0-5][0-9]):([0-5][0-9](?:\.[0-9]+)?)\Z", re.ASCII)
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGTPE]?)(?:i?B)?\Z", re.ASCII | re.IGNORECASE)


def parse_duration(text: str) -> float:
    """Seconds in ``90``, ``0.2``, ``90s``, ``1h30m``, ``30d`` or ``HH:MM:SS``.

    Raises:
        InvalidArgument: the text is no duration.
    """
    clock = _CLOCK.match(text)
    if clock is not None:
        return int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3])
    parts = _PART.findall(text)
    whole = "".join(number + unit for number, unit in parts)
    # A number without a unit is seconds, so only the last may go without: "1h30" would be read as 30 s by some.
    if not parts or whole != text or any(not unit for _, unit in parts[:-1]) or (len(parts) > 1 and not parts[-1][1]):
        raise InvalidArgument(f"{text!r} is not a duration", hint="write 90, 0.2, 90s, 1h30m or HH:MM:SS")
    return math.fsum(float(number) * _SECONDS[unit] for number, unit in parts)


def parse_size(text: str) -> int:
    """Bytes in ``1000``, ``512M`` or ``2GiB``; each unit is 1024 times the one before.

    Raises:
        InvalidArgument: the text is no size.
    """
    match = _SIZE.match(text.strip())
    if match is None:
        raise InvalidArgument(f"{text!r} is not a size", hint="write a number of bytes, or 512M, 2GiB")
    return int(float(match[1]) * 1024 ** " KMGTPE".index(match[2].upper() or " "))
