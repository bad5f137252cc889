"""``jobd submit``."""

from __future__ import annotations

import json
import sys

from jobd.cli.connection import Daemon
from jobd.cli.options import Parser
from jobd.cli.show import print_json, print_lines
from jobd.cli.template import add_template_options, captured, request_id, split_command, template_of
from jobd.model.errors import InvalidArgument
from jobd.model.text import wrap_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main(words: list[str]) -> int:
    """Submit a job, or the jobs of a file; prints the ids."""
    options, command = parse(words)
    templates = _from_file(options.template_file) if options.template_file else [template_of(options, command)]
    params = {"templates": templates, "captured": captured(options), "request_id": request_id(options)}
    result = Daemon(options).request("submit", params)
    if options.json:
        print_json(result)
    else:
        print_lines(job["job_id"] for job in result["jobs"])
    return 0


def parse(words: list[str]) -> tuple[Any, list[str]]:
    """Options and command.

    Raises:
        InvalidArgument: there is no command, or one and a file.
    """
    parser = Parser("submit", "Submit a job; prints its id.", usage="jobd submit [options] -- CMD ARG...")
    add_template_options(parser)
    parser.add_argument(
        "--from",
        dest="template_file",
        metavar="FILE",
        help="a template in TOML or JSON, .jsonl or - for many",
    )
    before, command = split_command(words)
    if not command:
        parser.add_argument("command", nargs="...")
    options = parser.parse_args(before)
    command = command or options.command
    if bool(command) is bool(options.template_file):
        raise InvalidArgument("say either a command or --from FILE", hint="jobd submit -- CMD ARG...")
    return options, command


def _from_file(name: str) -> list[dict[str, Any]]:
    text = _read(name)
    if name == "-" or name.endswith(".jsonl"):
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        return [_parse(json.loads, line, f"line {number}") for number, line in lines]
    if name.endswith(".toml"):
        import tomllib

        return [_parse(tomllib.loads, text, name)]
    return [_parse(json.loads, text, name)]


def _read(name: str) -> str:
    try:
        if name == "-":
            return sys.stdin.buffer.read().decode("utf-8")
        with open(name, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise InvalidArgument(f"{name} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{name} is not UTF-8", hint='write other bytes as {"b64": "..."}') from error


def _parse(load: Any, text: str, where: str) -> dict[str, Any]:
    try:
        template = load(text)
    except ValueError as error:
        raise InvalidArgument(f"{where}: {error}") from error
    if not isinstance(template, dict):
        raise InvalidArgument(f"{where}: a template is an object")
    return {str(name): _plain(value) for name, value in template.items()}


def _plain(value: Any) -> Any:
    """TOML has times of its own."""
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if isoformat is not None else wrap_all(value)
