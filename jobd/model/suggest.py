"""Suggestions for names that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable

from jobd.model.errors import InvalidArgument


def unknown_name(what: str, name: str, known: Iterable[str]) -> InvalidArgument:
    """The error for a name that is not among the known ones, with the nearest of them as its hint."""
    import difflib  # only where something is wrong: it costs the command line milliseconds

    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are: {', '.join(sorted(known))}"
    return InvalidArgument(f"unknown {what} {name!r}", hint=hint)
