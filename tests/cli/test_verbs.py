"""The verbs as scripts use them: what is printed where, ids and selections, errors and their codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobd.model.info import JobInfo
from tests.helpers.daemon import Daemon, environment


def parsed(done: subprocess.CompletedProcess[bytes]) -> Any:
    """The one JSON document on stdout."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def error_of(done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    """The error on stderr; nothing is on stdout."""
    assert done.stdout == b""
    error: dict[str, Any] = json.loads(done.stderr)["error"]
    return error


def submit(daemon: Daemon, count: int, *words: str) -> list[str]:
    return [daemon.submit(*words, "--", "true") for _ in range(count)]


def test_submit_prints_ids(daemon: Daemon) -> None:
    assert daemon.jobd("submit", "--", "true").stdout == b"1\n"
    assert parsed(daemon.jobd("submit", "--json", "--", "true"))["jobs"][0]["job_id"] == "2"
    assert daemon.jobd("submit", "true").stdout == b"3\n"
    assert daemon.jobd("--json", "submit", "--", "true").stdout.startswith(b'{"jobs"')


def test_submit_from_files(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('remote_command = "sh"\nargs = ["-c", "exit 4"]\ntime_limit = "1h"\n')
    (tmp_path / "one.json").write_text('{"remote_command": "sh", "args": ["-c", "exit 5"]}')
    lines = '{"remote_command": "true"}\n\n{"remote_command": "false"}\n'
    (tmp_path / "many.jsonl").write_text(lines)
    assert daemon.jobd("submit", "--from", str(tmp_path / "one.toml")).stdout == b"1\n"
    assert daemon.jobd("submit", "--from", str(tmp_path / "one.json")).stdout == b"2\n"
    assert daemon.jobd("submit", "--from", str(tmp_path / "many.jsonl")).stdout == b"3\n4\n"
    assert daemon.jobd("submit", "--from", "-", input=lines.encode()).stdout == b"5\n6\n"
    assert [daemon.jobd("wait", str(id)).returncode for id in range(1, 7)] == [4, 5, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (b'{"remote_command": "true"}\nnonsense\n', b"line 2"),
        (b'{"remote_command": "true"}\n{"remote_comand": "x"}\n', b"template 2"),
        (b'{"remote_command": "true"}\n{"remote_command": "x", "slots": 1000000}\n', b"template 2"),
    ],
)
def test_all_or_none_and_the_error_names_the_line(daemon: Daemon, lines: bytes, told: bytes) -> None:
    done = daemon.jobd("submit", "--from", "-", input=lines)
    assert (done.returncode, done.stdout) == (2, b"")
    assert told in done.stderr
    assert parsed(daemon.jobd("list", "--json"))["jobs"] == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["submit"], 2),
        (["submit", "--slots", "0", "--", "true"], 2),
        (["submit", "--slots", "x", "--", "true"], 2),
        (["submit", "--nice", "99", "--", "true"], 2),
        (["submit", "--time-limit", "soon", "--", "true"], 2),
        (["submit", "--env", "noequals", "--", "true"], 2),
        (["submit", "--session", "nowhere", "--", "true"], 3),
        (["submit", "--queue", "nowhere", "--", "true"], 3),
        (["submit", "--backend", "nowhere", "--", "true"], 3),
        (["submit", "--gpus", "1", "--", "true"], 6),
        (["submit", "--array", "1-10", "--", "true"], 6),
        (["submit", "--email", "x@example.org", "--", "true"], 6),
        (["submit", "--memory-limit", "1G", "--", "true"], 6),
        (["wait", "99"], 3),
        (["wait", "0"], 2),
        (["wait", "x"], 2),
        (["wait"], 2),
        (["show", "5-9"], 3),
        (["show", "last"], 3),
        (["list", "--state", "NONSENSE"], 2),
        (["list", "--no-such-option"], 2),
        (["session", "remove", "nowhere"], 3),
        (["signal", "NONSENSE", "--all"], 2),
        (["run"], 2),
    ],
)
def test_what_is_wrong_has_its_code(daemon: Daemon, words: list[str], code: int) -> None:
    done = daemon.jobd(*words)
    assert done.returncode == code, done.stderr
    assert done.stdout == b""
    assert done.stderr.startswith(b"jobd: ")
    assert b"Traceback" not in done.stderr


def test_an_error_is_an_object_with_json(daemon: Daemon) -> None:
    error = error_of(daemon.jobd("wait", "--json", "99"))
    assert (error["name"], error["code"], error["jobs"]) == ("NotFound", 3, ["99"])
    assert error["message"]
    assert error["hint"]


def test_an_unknown_verb_gets_a_suggestion() -> None:
    done = subprocess.run([sys.executable, "-m", "jobd", "sumbit"], capture_output=True, check=False)
    assert done.returncode == 2
    assert b"did you mean submit?" in done.stderr


def test_selections(daemon: Daemon) -> None:
    one, two = submit(daemon, 2, "--label", "a=1")
    three = daemon.submit("--label", "a=1", "--label", "b=2", "--", "false")
    daemon.jobd("session", "create", "mine")
    four = daemon.submit("--session", "mine", "--hold", "--", "true")
    daemon.jobd("wait", "1-3")

    def ids(*words: str) -> list[str]:
        return daemon.jobd("list", "-q", *words).stdout.decode().split()

    assert ids() == [one, two, three, four]
    assert ids("--label", "a=1") == [one, two, three]
    assert ids("--label", "a=1", "--label", "b=2") == [three]
    assert ids("--state", "failed") == [three]
    assert ids("--session", "mine") == [four]
    assert ids("2-99") == [two, three, four]
    assert ids("last", "1") == [one, four]
    assert daemon.jobd("reap", "2").returncode == 0
    assert ids("1-3") == [one, three]
    assert ids("--limit", "1") == [three, four]


def test_several_jobs_each_is_tried_and_the_first_failure_counts(daemon: Daemon) -> None:
    held = daemon.submit("--hold", "--", "true")
    done = daemon.submit("--", "true")
    daemon.jobd("wait", done)
    result = daemon.jobd("release", "--json", done, held)
    assert result.returncode == 4
    assert json.loads(result.stdout)["done"] == [held]
    assert daemon.jobd("wait", held).returncode == 0


def test_wait_on_several_any_and_json(daemon: Daemon) -> None:
    good, bad = daemon.submit("--", "true"), daemon.submit("--", "false")
    assert daemon.jobd("wait", good, bad).returncode == 1
    assert daemon.jobd("wait", good).returncode == 0
    held = daemon.submit("--hold", "--", "true")
    assert daemon.jobd("wait", "--any", held, bad).returncode == 1
    jobs = parsed(daemon.jobd("wait", "--json", good))["jobs"]
    assert set(jobs[0]) == set(JobInfo.__struct_fields__)
    assert daemon.jobd("wait", "--timeout", "0", held).returncode == 124


def test_json_has_every_field_that_a_table_has(daemon: Daemon) -> None:
    submit(daemon, 1)
    for verb in (["list"], ["queue", "list"], ["backend", "list"], ["session", "list"]):
        columns = daemon.jobd(*verb).stdout.decode().splitlines()[0].lower().split("\t")
        (rows,) = parsed(daemon.jobd(*verb, "--json")).values()
        assert set(columns) <= set(rows[0])


def test_list_columns_and_sort(daemon: Daemon) -> None:
    for seconds in ("0.3", "0.1"):
        daemon.submit("--name", seconds, "--", "sleep", seconds)
    daemon.jobd("wait", "1-2")
    done = daemon.jobd("list", "-o", "job_name,state", "--sort", "wallclock_time")
    assert done.stdout == b"JOB_NAME\tSTATE\n0.1\tDONE\n0.3\tDONE\n"
    assert daemon.jobd("list", "--sort", "wallclok_time").returncode == 2


def test_show_gives_names_of_the_environment_only(daemon: Daemon) -> None:
    id = daemon.submit("--env", "SECRET=hush", "--", "true")
    daemon.jobd("wait", id)
    for words in (["show"], ["show", "--json"]):
        shown = daemon.jobd(*words, id).stdout
        assert b"SECRET" in shown
        assert b"hush" not in shown
    job = daemon.info(id)
    assert {"template", "attempts", "events", "files"} <= set(job)
    assert [event["to"] for event in job["events"]] == ["QUEUED", "RUNNING", "DONE"]


def test_logs(daemon: Daemon) -> None:
    id = daemon.submit("--", "sh", "-c", "echo one; echo two; echo three; printf end; echo err >&2")
    daemon.jobd("wait", id)
    both = daemon.jobd("logs", id)
    assert (both.stdout, both.stderr) == (b"one\ntwo\nthree\nend", b"err\n")
    assert daemon.jobd("logs", "--stderr", id).stdout == b""
    assert daemon.jobd("logs", "-n", "2", "--stdout", id).stdout == b"three\nend"
    assert daemon.jobd("logs", "--attempt", "7", id).returncode == 3


def test_events_of_one_job(daemon: Daemon) -> None:
    submit(daemon, 2)
    daemon.jobd("wait", "1-2")
    events = [json.loads(line) for line in daemon.jobd("events", "--json", "--job", "2").stdout.splitlines()]
    assert [(event["job_id"], event["from"], event["to"]) for event in events] == [
        ("2", None, "QUEUED"),
        ("2", "QUEUED", "RUNNING"),
        ("2", "RUNNING", "DONE"),
    ]
    last = events[-1]["seq"]
    assert daemon.jobd("events", "--since", str(last), "--job", "2").stdout == b""


def test_completion_works_with_and_without_a_daemon(daemon: Daemon) -> None:
    id = daemon.submit("--", "true")
    words = daemon.jobd("__complete", "show").stdout.decode().split()
    assert {"last", id} <= set(words)
    assert "submit" in daemon.jobd("__complete").stdout.decode().split()
    daemon.stop()
    assert daemon.jobd("__complete", "show").stdout == b"last\n"
    for shell in ("bash", "zsh", "fish"):
        assert b"__complete" in daemon.jobd("completion", shell).stdout
    done = subprocess.run(["bash", "-n"], input=daemon.jobd("completion", "bash").stdout, check=False)
    assert done.returncode == 0


def test_config(daemon: Daemon) -> None:
    daemon.configure("[scheduler]\nslots = 3\n")
    assert daemon.jobd("config", "check").returncode == 0
    shown = parsed(daemon.jobd("config", "show", "--json"))
    assert shown["scheduler"]["slots"] == 3
    assert shown["sources"]["scheduler.slots"].endswith("jobd.toml")
    daemon.configure("[scheduler]\nslotz = 3\n")
    wrong = daemon.jobd("config", "check")
    assert wrong.returncode == 2
    assert b"did you mean slots?" in wrong.stderr


def test_doctor_and_status(daemon: Daemon) -> None:
    assert daemon.jobd("doctor").returncode == 0
    status = parsed(daemon.jobd("status", "--json"))
    assert {"version", "ready", "uptime", "jobs", "backends", "loop_lag"} <= set(status)
    daemon.stop()
    assert daemon.jobd("status").returncode == 69
    assert b"nobody" in daemon.jobd("doctor").stdout or b"no daemon" in daemon.jobd("doctor").stdout


@pytest.mark.parametrize("verb", ["status", "shutdown", "config show", "doctor", "completion bash"])
def test_these_never_start_a_daemon(state_dir: Path, verb: str) -> None:
    state = state_dir / "state"
    command = [sys.executable, "-m", "jobd", *verb.split()]
    environ = environment(state, {"JOBD_NO_AUTOSTART": "0"})
    subprocess.run(command, env=environ, capture_output=True, timeout=30, check=False)
    assert not state.exists()
