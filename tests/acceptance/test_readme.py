"""What the README shows works as it shows it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.helpers.daemon import Daemon

ROOT = Path(__file__).parent.parent.parent


def test_the_real_input(daemon: Daemon, tmp_path: Path) -> None:
    """A checksum of each source file, one job a file: the README's own lines, run by a shell."""
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (block,) = [block for block in blocks if "SHA256SUMS" in block]
    lines = [line[2:] for line in block.splitlines() if line.startswith("$ ") and "activate" not in line]
    script = "set -e\n" + "\n".join(lines).replace("jobs.jsonl", f"{tmp_path}/jobs.jsonl")
    script = script.replace("> ids", f"> {tmp_path}/ids").replace("cat ids", f"cat {tmp_path}/ids")
    script = script.replace("SHA256SUMS", f"{tmp_path}/SHA256SUMS")
    (tmp_path / "jobd").write_text(f'#!/bin/sh\nexec {sys.executable} -m jobd "$@"\n')
    (tmp_path / "jobd").chmod(0o755)
    environ = {**os.environ, "JOBD_STATE_DIR": str(daemon.state_dir), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("all match\nJOB_ID\tSTATE\tWALLCLOCK_TIME\tUSER_TIME\tMAX_RSS\n")
    sources = len(list((ROOT / "jobd").glob("*.py")))
    assert len((tmp_path / "SHA256SUMS").read_text().splitlines()) == sources
    jobs = daemon.request("list")["jobs"]
    assert len(jobs) == sources
    assert all(job["state"] == "DONE" and job["wallclock_time"] > 0 for job in jobs)


def test_the_library_example(daemon: Daemon) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    environ = {**os.environ, "JOBD_STATE_DIR": str(daemon.state_dir)}
    done = subprocess.run([sys.executable, "-c", example], env=environ, capture_output=True, text=True, check=True)
    state, status, seconds = done.stdout.split()
    assert (state, status) == ("DONE", "0")
    assert 0 < float(seconds) < 10


def test_every_page_that_is_linked_is_there() -> None:
    text = (ROOT / "README.md").read_text()
    for page in re.findall(r"\]\((docs/[^)]+)\)", text):
        assert (ROOT / page).exists(), page
