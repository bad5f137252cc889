"""``jobd config``."""

from __future__ import annotations

import os

from jobd.cli.actions import add_action
from jobd.cli.options import Parser
from jobd.cli.show import print_json, print_lines, print_table


def main(words: list[str]) -> int:
    """Check the configuration file, or show what is in force and where it comes from."""
    parser = Parser("config", "The configuration.")
    add_action(parser, ("check", "show"))
    parser.add_argument("--config", metavar="FILE", help="another file than the usual one (JOBD_CONFIG)")
    options = parser.parse_args(words)
    from jobd import config, paths

    place = paths.find(os.environ, options.socket)
    path = paths.config_path(os.environ, options.config, place)
    found = config.load(path)
    if options.action == "check":
        return _checked(str(path), exists=path.exists(), as_json=options.json)
    import msgspec

    values = msgspec.to_builtins(found)
    if options.json:
        print_json({"file": str(path), **values})
        return 0
    rows = [
        {"key": key, "value": values[key.split(".")[0]][key.split(".")[1]], "from": source}
        for key, source in found.sources.items()
    ]
    print_table(["key", "value", "from"], rows)
    return 0


def _checked(path: str, *, exists: bool, as_json: bool) -> int:
    if as_json:
        print_json({"file": path, "exists": exists, "valid": True})
    else:
        print_lines([f"{path}: {'valid' if exists else 'there is no such file: the defaults are in force'}"])
    return 0
