"""Arguments, environment, paths and output may be any bytes: unchanged end to end, and shown safely."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.helpers.daemon import Daemon

ODD = [b"", b"\xff\xfe", b"a\nb", b'it\'s "quoted"', b"$HOME `id` \\", "é✓".encode(), b"\x1b[31m", b"--", b"-x"]
PRINT_ARGUMENTS = "import os, sys; os.write(1, b'\\0'.join(map(os.fsencode, sys.argv[1:])))"


def test_arguments(daemon: Daemon) -> None:
    done = daemon.jobd("run", "--", "/usr/bin/python3", "-c", PRINT_ARGUMENTS, *ODD)
    assert done.stdout.split(b"\0") == ODD


def test_environment(daemon: Daemon) -> None:
    script = "import os; os.write(1, os.environb[b'ODD'])"
    done = daemon.jobd("run", "--env", b"ODD=\xff\n'", "--", "/usr/bin/python3", "-c", script)
    assert done.stdout == b"\xff\n'"


def test_captured_environment(daemon: Daemon) -> None:
    script = "import os; os.write(1, os.environb[b'ODD'])"
    done = daemon.jobd("run", "--", "/usr/bin/python3", "-c", script, environ={"ODD": os.fsdecode(b"\xff'\n")})
    assert done.stdout == b"\xff'\n"


def test_paths(daemon: Daemon, tmp_path: Path) -> None:
    folder = os.path.join(os.fsencode(tmp_path), b"odd\xff \n'")
    os.mkdir(folder)
    target = os.path.join(folder, b"out\xfe")
    assert daemon.jobd("run", "-C", folder, "-o", target, "--", "/bin/sh", "-c", "pwd").returncode == 0
    with open(target, "rb") as file:
        assert file.read() == folder + b"\n"


def test_shown_safely(daemon: Daemon) -> None:
    daemon.jobd("run", "--name", b"n\xff\x1b[2J\n", "--", "true", b"\xff")
    table = daemon.jobd("list")
    assert b"\x1b" not in table.stdout
    assert len(table.stdout.splitlines()) == 2
    table.stdout.decode("utf-8")
    job = json.loads(daemon.jobd("show", "--json", "last").stdout)["jobs"][0]
    assert job["template"]["args"] == [{"b64": "/w=="}]
    assert job["job_name"] == {"b64": "bv8bWzJKCg=="}


def test_a_megabyte_of_arguments(daemon: Daemon) -> None:
    arguments = [b"x" * 100_000] * 10
    script = "import sys; print(sum(map(len, sys.argv[1:])))"
    template = {"remote_command": "/usr/bin/python3", "args": ["-c", script, *map(bytes.decode, arguments)]}
    (row,) = daemon.request("submit", {"templates": [template]})["jobs"]
    assert daemon.jobd("wait", row["job_id"]).returncode == 0
    assert daemon.jobd("logs", row["job_id"]).stdout == b"1000000\n"


def test_an_argument_that_the_kernel_refuses(daemon: Daemon) -> None:
    """One argument may be 128 KiB (MAX_ARG_STRLEN, execve(2))."""
    template = {"remote_command": "/bin/true", "args": ["x" * 140_000]}
    (row,) = daemon.request("submit", {"templates": [template]})["jobs"]
    assert daemon.jobd("wait", row["job_id"]).returncode == 126
    assert b"E2BIG" in daemon.jobd("explain", row["job_id"]).stdout
