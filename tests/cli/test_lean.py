"""The common verbs load little more than a bare interpreter: scripts call them thousands of times."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.helpers.daemon import Daemon

TOO_HEAVY = {
    "asyncio",
    "anyio",
    "msgspec",
    "rich",
    "structlog",
    "aiosqlite",
    "psutil",
    "dataclasses",
    "inspect",
    "typing",
}
REPORT = (
    "import sys, json\n"
    "from jobd.cli import main\n"
    "code = main(sys.argv[1:])\n"
    "sys.stderr.write(json.dumps(sorted(sys.modules)))\n"
    "sys.exit(code)\n"
)


@pytest.mark.parametrize(
    "words",
    [
        ["submit", "--", "true"],
        ["run", "--", "true"],
        ["wait", "last"],
        ["show", "last"],
        ["list"],
        ["logs", "last"],
        ["explain", "last"],
    ],
    ids=lambda words: words[0],
)
def test_a_hot_verb_loads_none_of_these(daemon: Daemon, words: list[str]) -> None:
    daemon.submit("--", "true")
    environ = {**os.environ, "JOBD_STATE_DIR": str(daemon.state_dir)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", _with_path(), *words], env=environ, capture_output=True, check=True
    )
    loaded = set(json.loads(done.stderr))
    assert "argparse" in loaded
    assert not loaded & TOO_HEAVY


def _with_path() -> str:
    """Without site-packages nothing is loaded by a .pth file that is not ours."""
    return f"import sys; sys.path[:0] = {sys.path!r}\n{REPORT}"
