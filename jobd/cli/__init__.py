"""The command line: verbs are routed by hand to their module, which is loaded when the verb is called.

Scripts call it thousands of times, so the common verbs load little more than a bare interpreter.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

VERBS = {
    "run": "run",
    "submit": "submit",
    "list": "listing",
    "ls": "listing",
    "show": "show",
    "explain": "explain",
    "wait": "wait",
    "logs": "logs",
    "suspend": "suspend",
    "resume": "resume",
    "hold": "hold",
    "release": "release",
    "terminate": "terminate",
    "cancel": "terminate",
    "signal": "signal",
    "reap": "reap",
    "rm": "reap",
    "events": "events",
    "session": "session",
    "queue": "queue",
    "backend": "backend",
    "serve": "serve",
    "status": "status",
    "shutdown": "shutdown",
    "config": "config",
    "doctor": "doctor",
    "completion": "completion",
    "__complete": "complete",
}
"""Each verb and the module of ``jobd.cli.verbs`` that serves it."""

_WITH_VALUE = ("--socket",)
_FLAGS = ("--json", "--no-autostart", "-q", "--quiet")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    before, words = _common_before_verb(words)
    if words and words[0] in ("-h", "--help", "help"):
        return _help()
    if words and words[0] == "--version":
        from jobd import __version__

        print(f"jobd {__version__}")
        return 0
    verb = words.pop(0) if words else "list"
    module = VERBS.get(verb)
    if module is None:
        return _unknown(verb)
    return _call(verb, module, [*before, *words])


def _common_before_verb(words: list[str]) -> tuple[list[str], list[str]]:
    """Common options may stand before the verb, too."""
    position = 0
    while position < len(words):
        if words[position] in _FLAGS or words[position].startswith("--socket="):
            position += 1
        elif words[position] in _WITH_VALUE:
            position += 2
        else:
            break
    return words[:position], words[position:]


def _call(verb: str, module: str, words: list[str]) -> int:
    import importlib

    from jobd.cli.failing import guarded

    return guarded(lambda: importlib.import_module(f"jobd.cli.verbs.{module}").main(words), verb, words)


def _unknown(verb: str) -> int:
    import difflib

    near = difflib.get_close_matches(verb, VERBS, n=1)
    hint = f"did you mean {near[0]}?" if near else "jobd help lists the verbs"
    print(f"jobd: there is no verb {verb!r}; {hint}", file=sys.stderr)
    return 2


def _help() -> int:
    from jobd.cli.helptext import TEXT

    print(TEXT, end="")
    return 0
