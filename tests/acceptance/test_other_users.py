"""A root daemon runs each user's jobs as that user, and shows nobody another's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.needs import needs_root
from tests.helpers.processes import end_all
from tests.helpers.waiting import eventually

pytestmark = needs_root

ALICE, BOB = 65532, 65533
PYTHON = "/usr/bin/python3"

SERVE = """
import os, sys
from pathlib import Path
from jobd import config, daemon, logs, paths
os.umask(0o077)
here = Path(sys.argv[2])
place = paths.Place(here / "state", here / "run" / "jobd.sock", system=True, autostart=False)
paths.ensure_private_folder(place.state_dir)
logs.configure("info")
nowhere = Path("/nowhere")
daemon._run(daemon.Daemon(place, daemon.Options(), config.load(nowhere), nowhere, os.environ))
"""

CLIENT = """
import json, os, socket, sys
channel = socket.socket(socket.AF_UNIX)
channel.connect(sys.argv[1])
lines = channel.makefile("rb")
for number, (method, params) in enumerate([("hello", {"protocol": [1, 1]}), *json.loads(sys.argv[2])]):
    channel.sendall(json.dumps({"id": number, "method": method, "params": params}).encode() + b"\\n")
    while (answer := json.loads(next(lines))).get("id") != number or "method" in answer:
        pass
print(json.dumps(answer))
"""


@pytest.fixture
def system(tmp_path: Path) -> Iterator[Path]:
    """A folder that everybody can reach, with a system daemon's socket in it that everybody may use."""
    folder = Path(tempfile.mkdtemp(prefix="jobd-", dir="/tmp"))
    folder.chmod(0o755)
    # The words at the end are how the test's own processes are found again.
    words = [sys.executable, "-c", SERVE, "serve", str(folder), str(folder / "state")]
    serving = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        socket = folder / "run" / "jobd.sock"
        eventually(socket.is_socket, "it listens")
        eventually(lambda: ask(folder, 0, ("status", {}))["result"]["ready"], "it is ready")
        assert socket.stat().st_mode & 0o777 == 0o660
        assert socket.parent.stat().st_mode & 0o777 == 0o755
        socket.chmod(0o666)
        yield folder
    finally:
        serving.kill()
        serving.wait()
        end_all(folder / "state")
        shutil.rmtree(folder)


def ask(folder: Path, uid: int, *requests: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Send requests as a user; the last answer."""
    done = subprocess.run(
        [PYTHON, "-S", "-c", CLIENT, str(folder / "run" / "jobd.sock"), json.dumps(requests)],
        user=uid,
        group=uid,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        check=True,
        timeout=30,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def run(folder: Path, uid: int, script: str, **template: Any) -> dict[str, Any]:
    """Run a shell script as a user's job; how it ended."""
    whole = {"remote_command": "/bin/sh", "args": ["-c", script], **template}
    id = ask(folder, uid, ("submit", {"templates": [whole]}))["result"]["jobs"][0]["job_id"]
    job: dict[str, Any] = ask(folder, uid, ("wait", {"selection": {"ids": [id]}}))["result"]["jobs"][0]
    return job


def test_a_job_has_its_owner_s_rights_and_no_more(system: Path, tmp_path: Path) -> None:
    script = """
        [ "$(id -u):$(id -g):$(id -G)" = "65532:65532:65532" ] || exit 3
        cat /etc/shadow 2>/dev/null && exit 4
        exit 0
    """
    job = run(system, ALICE, script)
    assert (job["state"], job["exit_status"], job["job_owner"]) == ("DONE", 0, str(ALICE))


def test_captured_output_is_the_owner_s_and_can_be_opened_again(system: Path) -> None:
    job = run(system, ALICE, "echo again > /dev/stdout")
    assert job["exit_status"] == 0
    captured = system / "state" / "jobs" / "0" / job["job_id"] / "1.out"
    assert captured.read_text() == "again\n"
    assert (captured.stat().st_uid, captured.stat().st_mode & 0o777) == (ALICE, 0o600)


def test_files_are_opened_with_the_owner_s_rights(system: Path, tmp_path: Path) -> None:
    job = run(system, ALICE, "true", output_path="/root/jobd-test-must-not-be")
    assert (job["sub_state"], job["start_error"]) == ("start-failed", "EACCES")
    assert not os.path.exists("/root/jobd-test-must-not-be")


def test_nobody_sees_or_controls_another_s(system: Path) -> None:
    mine = run(system, ALICE, "true")["job_id"]
    assert ask(system, BOB, ("list", {}))["result"]["jobs"] == []
    selection = {"selection": {"ids": [mine]}}
    for method in ("show", "explain", "wait", "terminate", "reap"):
        assert ask(system, BOB, (method, selection))["error"]["data"]["name"] == "DeniedByDrms"
    assert ask(system, BOB, ("logs", {"job": mine}))["error"]["data"]["name"] == "DeniedByDrms"
    assert ask(system, BOB, ("shutdown", {}))["error"]["data"]["name"] == "DeniedByDrms"
    assert [job["job_id"] for job in ask(system, ALICE, ("list", {}))["result"]["jobs"]] == [mine]
    assert [job["job_id"] for job in ask(system, 0, ("list", {}))["result"]["jobs"]] == [mine]


def test_sessions_and_request_ids_are_each_user_s_own(system: Path) -> None:
    for uid in (ALICE, BOB):
        assert "result" in ask(system, uid, ("session_create", {"name": "same"}))
    ids = [
        ask(system, uid, ("submit", {"templates": [{"remote_command": "true"}], "request_id": "r"}))["result"]["jobs"][
            0
        ]["job_id"]
        for uid in (ALICE, BOB, ALICE)
    ]
    assert ids == ["1", "2", "1"]
