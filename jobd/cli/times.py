"""Times as people write them on the command line, in their own time zone."""

from __future__ import annotations

from datetime import datetime, timedelta

from jobd.model.errors import InvalidArgument
from jobd.model.units import parse_duration


def parse_time(text: str, now: datetime | None = None) -> str:
    """RFC 3339 for ``now+2h``, ``HH:MM`` (the next one to come) or RFC 3339.

    Raises:
        InvalidArgument: the text is no time.
    """
    now = now or datetime.now().astimezone()
    if text.startswith("now+"):
        return (now + timedelta(seconds=parse_duration(text[4:]))).isoformat()
    try:
        if len(text) == 5 and text[2] == ":":
            today = now.replace(hour=int(text[:2]), minute=int(text[3:]), second=0, microsecond=0)
            return (today if today >= now else today + timedelta(days=1)).isoformat()
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidArgument(f"{text!r} is not a time", hint="write HH:MM, now+2h or 2030-01-31T12:00:00Z") from error
    return (found if found.tzinfo else found.astimezone()).isoformat()
