"""How commands fail: one place that turns errors into messages and exit codes."""

from __future__ import annotations

import os
import sys

from jobd.model.errors import JobdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

INTERRUPTED = 130
BROKEN_PIPE = 141
RUN_FAILED = 125
_USAGE = 2


def guarded(work: Callable[[], int], verb: str, words: list[str]) -> int:
    """Run a verb; its exit code, whatever happens."""
    try:
        code = work()
        sys.stdout.flush()
        return code
    except JobdError as error:
        report(error, as_json="--json" in _options(words))
        # What a job itself can exit with must not be mistaken: in `run` jobd's own failures are 125, bad usage is 2.
        return RUN_FAILED if verb == "run" and error.exit_code != _USAGE else error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read stdout has left; the interpreter must not complain about it at its end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE


def _options(words: list[str]) -> list[str]:
    return words[: words.index("--")] if "--" in words else words


def report(error: JobdError, *, as_json: bool) -> None:
    """Tell people, or with --json programs, what is wrong: always on stderr."""
    if as_json:
        import json

        body = {
            "name": error.name,
            "code": error.exit_code,
            "message": error.message,
            "hint": error.hint,
            "jobs": list(error.jobs),
        }
        print(json.dumps({"error": body}), file=sys.stderr)
        return
    note(error.message + (f"; {error.hint}" if error.hint else ""))


def note(text: str) -> None:
    """A note to people."""
    sys.stderr.write(f"jobd: {text}\n".encode("utf-8", "backslashreplace").decode("utf-8"))
    sys.stderr.flush()
