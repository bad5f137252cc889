"""The named queries of ``queries.sql``."""

from __future__ import annotations

from importlib.resources import files

_MARK = "-- "


def _parse(text: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    name: str | None = None
    for line in text.splitlines():
        head, separator, _ = line.removeprefix(_MARK).partition(": ")
        if line.startswith(_MARK) and separator and head.isidentifier():
            name = head
            found[name] = []
        elif name is not None:
            found[name].append(line)
    return {name: "\n".join(lines).strip() for name, lines in found.items()}


QUERIES = _parse(files("jobd.store").joinpath("queries.sql").read_text("utf-8"))
"""SQL text by name."""
