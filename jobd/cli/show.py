"""How results are shown: JSON for programs, ids alone, or a table for people."""

from __future__ import annotations

import json
import sys

from jobd.model.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any


def print_json(value: Any) -> None:
    """One document, on a line of its own."""
    sys.stdout.write(json.dumps(value) + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Lines, each safe."""
    sys.stdout.write("".join(line + "\n" for line in lines))


def cell(value: Any) -> str:
    """A value as one safe word or line."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) or (isinstance(value, dict) and value.keys() == {"b64"}):
        return shown(value)
    if isinstance(value, dict):
        return ",".join(f"{cell(name)}={cell(item)}" for name, item in value.items()) or "-"
    if isinstance(value, list):
        return ",".join(cell(item) for item in value) or "-"
    return str(value)


def print_table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """A table: drawn on a terminal, else tab-separated with a line of names."""
    cells = [[cell(row.get(column)) for column in columns] for row in rows]
    heads = [column.upper() for column in columns]
    if sys.stdout.isatty():
        _draw(heads, cells)
    else:
        print_lines("\t".join(line) for line in [heads, *cells])


def _draw(heads: list[str], cells: list[list[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold")
    for line in cells:
        table.add_row(*[Text(word, style=_style(word)) for word in line])
    Console().print(table)


def _style(word: str) -> str:
    return {"FAILED": "red", "DONE": "green", "RUNNING": "cyan", "SUSPENDED": "yellow"}.get(word, "")


def print_fields(record: Mapping[str, Any], indent: str = "") -> None:
    """A record, a field a line; nested ones indented."""
    for name, value in record.items():
        if isinstance(value, dict) and value and value.keys() != {"b64"}:
            print_lines([f"{indent}{name}:"])
            print_fields(value, indent + "  ")
        elif isinstance(value, list) and value and isinstance(value[0], dict) and value[0].keys() != {"b64"}:
            print_lines([f"{indent}{name}:", *(f"{indent}  {cell(item)}" for item in value)])
        else:
            print_lines([f"{indent}{name}: {cell(value)}"])
