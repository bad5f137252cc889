"""From the options of ``run`` and ``submit`` to a template, and what a job gets from the caller without words."""

from __future__ import annotations

import argparse
import os
import sys

from jobd.cli.options import Parser, pairs
from jobd.model.errors import InvalidArgument
from jobd.model.text import wrap, wrap_all
from jobd.model.units import parse_duration, parse_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TEXTS = {
    "--name": "job_name",
    "--session": "session",
    "--backend": "backend",
    "--queue": "queue_name",
    "--env-mode": "env_mode",
    "--account": "accounting_id",
}
_NUMBERS = {
    "--slots": "slots",
    "--gpus": "gpus",
    "--priority": "priority",
    "--nice": "nice",
    "--retries": "retries",
}
_FLAGS = {
    "--append": "append_output",
    "--join": "join_files",
    "--hold": "submit_as_hold",
    "--rerunnable": "rerunnable",
    "--leave-children": "leave_children",
}
_SIZES = {"--memory": "memory", "--memory-limit": "memory_limit"}


def add_template_options(parser: Parser) -> None:
    """The template options of cli.md."""
    group = parser.add_argument_group("the job")
    for option, name in _TEXTS.items():
        group.add_argument(option, dest=name, metavar=name.upper())
    for option, name in _NUMBERS.items():
        group.add_argument(option, dest=name, type=int, metavar="N")
    for option, name in _FLAGS.items():
        group.add_argument(option, dest=name, action="store_true", default=None)
    for option, name in _SIZES.items():
        group.add_argument(option, dest=name, metavar="SIZE")
    group.add_argument("--category", "--image", dest="job_category", metavar="NAME")
    group.add_argument("-C", "--workdir", dest="working_directory", metavar="DIR")
    group.add_argument("--env", dest="env", metavar="K=V", action="append", default=[])
    group.add_argument("-i", "--stdin", dest="input_path", metavar="FILE", help="- for the caller's own, to its end")
    group.add_argument("-o", "--stdout", dest="output_path", metavar="FILE")
    group.add_argument("-e", "--stderr", dest="error_path", metavar="FILE")
    group.add_argument("--time-limit", metavar="DURATION")
    group.add_argument("--start-at", metavar="TIME")
    group.add_argument("--deadline", metavar="TIME")
    group.add_argument("--array", metavar="1-100[:STEP][%MAX]")
    group.add_argument("--after", metavar="ID[:ON]", action="append", default=[])
    group.add_argument("--label", dest="labels", metavar="K=V", action="append", default=[])
    group.add_argument("--machine", metavar="NAME", action="append", default=[])
    group.add_argument("--email", metavar="ADDRESS", action="append", default=[])
    group.add_argument("--native", metavar="K=V", action="append", default=[])
    group.add_argument("--request-id", metavar="ID")


def template_of(options: argparse.Namespace, command: list[str]) -> dict[str, Any]:
    """The template that the options ask for, ready for the wire."""
    template: dict[str, Any] = {"remote_command": command[0], "args": command[1:]}
    names = [
        *_TEXTS.values(),
        *_NUMBERS.values(),
        *_FLAGS.values(),
        "job_category",
        "output_path",
        "error_path",
    ]
    template |= {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    template |= {name: parse_size(getattr(options, name)) for name in _SIZES.values() if getattr(options, name)}
    template |= _more(options)
    if options.input_path not in (None, "-"):
        template["input_path"] = options.input_path
    return {name: wrap_all(value) for name, value in template.items()}


def _more(options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {
        "working_directory": os.path.abspath(options.working_directory) if options.working_directory else None,
        "job_environment": pairs(options.env, "--env"),
        "labels": pairs(options.labels, "--label"),
        "candidate_machines": options.machine,
        "email": options.email,
        "native": pairs(options.native, "--native"),
        "time_limit": parse_duration(options.time_limit) if options.time_limit else None,
        "start_time": _time(options.start_at),
        "deadline_time": _time(options.deadline),
        "array": _array(options.array) if options.array else None,
        "after": [_dependency(word) for word in options.after],
    }
    return {name: value for name, value in found.items() if value not in (None, [], {})}


def _time(text: str | None) -> str | None:
    if text is None:
        return None
    from jobd.cli.times import parse_time

    return parse_time(text)


def _array(text: str) -> dict[str, int]:
    import re

    match = re.fullmatch(r"(\d+)-(\d+)(?::(\d+))?(?:%(\d+))?", text, re.ASCII)
    if match is None:
        raise InvalidArgument(f"--array takes 1-100, 1-100:5 or 1-100%4, not {text!r}")
    names = ("begin", "end", "step", "max_parallel")
    return {name: int(value) for name, value in zip(names, match.groups(), strict=True) if value is not None}


def _dependency(word: str) -> dict[str, str]:
    job, _, on = word.partition(":")
    return {"job": job, "on": on or "ok"}


def captured(options: argparse.Namespace) -> dict[str, Any]:
    """What the job gets from the caller: working directory, environment, umask, and with ``-i -`` its input."""
    umask = os.umask(0o077)
    os.umask(umask)
    found: dict[str, Any] = {
        "working_directory": wrap(_cwd()),
        "environment": [wrap(name + b"=" + value) for name, value in os.environb.items()],
        "umask": umask,
    }
    if getattr(options, "input_path", None) == "-":
        found["input"] = wrap(sys.stdin.buffer.read())
    return found


def _cwd() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        raise InvalidArgument("the working directory is gone", hint="change to another, or name one with -C") from error


def request_id(options: argparse.Namespace) -> str:
    """The caller's request id, or one made up so that a request that was cut off can be sent again."""
    given: str | None = options.request_id
    if given is not None:
        return given
    return os.urandom(16).hex()


def split_command(words: list[str]) -> tuple[list[str], list[str]]:
    """Options, and the command after ``--``; without one, the command begins at the first word that is no option."""
    if "--" in words:
        position = words.index("--")
        return words[:position], words[position + 1 :]
    return words, []
