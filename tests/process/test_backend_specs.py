"""From an attempt to the keeper's order, and what is refused before there is one."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobd.backends.base import Attempt
from jobd.backends.process import attributes
from jobd.backends.process.files import files_of, truncates
from jobd.backends.process.locality import Locality, Mounts
from jobd.backends.process.owners import Account
from jobd.backends.process.specs import additions, environment_entries, search_path, spec_of
from jobd.model.errors import InvalidArgument, JobdError, UnsupportedAttribute
from jobd.model.ids import JobId
from jobd.model.job import Job, Owner
from jobd.model.template import ArrayRange, JobTemplate, RawBytes, to_bytes, to_text
from jobd.model.text import unwrap

STATE = Path("/state")
ACCOUNT = Account(1000, 100, (100, 27), b"ann", b"/home/ann", b"/bin/zsh", switch=False)


@pytest.fixture
def locality() -> Iterator[Locality]:
    mounts = Mounts()
    yield Locality(mounts)
    mounts.close()


THE_JOB = JobId(42)


def attempt(id: JobId = THE_JOB, number: int = 1, **template: Any) -> Attempt:
    template.setdefault("remote_command", "/bin/true")
    job = Job(
        id=id.job,
        owner=Owner(1000, "ann"),
        session="S",
        backend="local",
        queue="Q",
        template=JobTemplate(**template),
        environment=None,
        submission_time=1.0,
        submission_machine="here",
    )
    return Attempt(id=id, number=number, token=f"ab-{id.job}.{id.task}-1", job=job, environment=None, granted_to="1-1")


def spec(locality: Locality, account: Account = ACCOUNT, one: Attempt | None = None, **template: Any) -> dict[str, Any]:
    return spec_of(one or attempt(**template), account, account.minimal_environment(), STATE, locality)


def test_what_a_job_is_told() -> None:
    assert additions(attempt(JobId(7))) == [
        b"JOB_ID=7",
        b"JOBD_JOB_ID=7",
        b"JOBD_ATTEMPT=1",
        b"JOBD_SESSION=S",
        b"JOBD_QUEUE=Q",
        b"JOBD_TOKEN=ab-7.0-1",
    ]


def test_a_task_is_told_its_index() -> None:
    told = additions(attempt(JobId(7, 3), array=ArrayRange(1, 9)))
    assert {b"JOB_ID=7", b"JOBD_JOB_ID=7.3", b"TASK_ID=3", b"JOBD_TASK_ID=3"} <= set(told)


def test_words_win_over_what_was_captured_but_not_over_what_jobd_says() -> None:
    one = attempt(job_environment={"A": "words", "JOBD_TOKEN": "forged", "R": RawBytes("/w==")})
    shared = environment_entries(b"A=captured\0JOBD_TOKEN=outer\0JOBD_ATTEMPT=9\0B=1\xff", ACCOUNT)
    merged = dict(entry.split(b"=", 1) for entry in shared + additions(one))
    assert (merged[b"A"], merged[b"B"], merged[b"R"]) == (b"words", b"1\xff", b"\xff")
    assert (merged[b"JOBD_TOKEN"], merged[b"JOBD_ATTEMPT"]) == (b"ab-42.0-1", b"1")


def test_a_captured_environment_may_be_empty() -> None:
    assert environment_entries(b"", ACCOUNT) == []
    assert environment_entries(b"A=1\0=B=2\0C\0=", ACCOUNT) == [b"A=1"]
    assert b"HOME=/home/ann" in environment_entries(None, ACCOUNT)


def test_the_last_path_counts() -> None:
    assert search_path([b"PATH=/a"], [b"X=1", b"PATH=/b:/c"]) == b"/b:/c"
    assert search_path([], []).startswith(b"/usr/local/sbin")


@given(st.lists(st.binary(max_size=20).filter(lambda raw: b"\0" not in raw), max_size=5))
def test_arguments_survive_as_bytes(raw: list[bytes]) -> None:
    mounts = Mounts()
    try:
        argv = spec(Locality(mounts), args=tuple(to_text(part) for part in raw))["argv"]
    finally:
        mounts.close()
    assert [unwrap(part) for part in argv[1:]] == raw


def test_captured_output_lies_in_a_shard() -> None:
    job = attempt(JobId(12345)).job
    found = files_of(STATE, job, 0, 2, ACCOUNT)
    assert found.stdout.path == b"/state/jobs/12/12345/2.out"
    assert found.stderr is not None and found.stderr.path == b"/state/jobs/12/12345/2.err"
    assert files_of(STATE, job, 7, 2, ACCOUNT).stdout.path == b"/state/jobs/12/12345/7.2.out"


@pytest.mark.parametrize(
    ("template", "cwd", "stdout"),
    [
        ({}, b"/home/ann", None),
        ({"working_directory": "sub"}, b"/home/ann/sub", None),
        ({"working_directory": "$DRMAA2_HOME_DIR$/x", "output_path": "o"}, b"/home/ann/x", b"/home/ann/x/o"),
        ({"working_directory": "/w", "output_path": "$DRMAA2_WORKING_DIR$/o.$DRMAA2_INDEX$"}, b"/w", b"/w/o.5"),
        ({"working_directory": "/w", "output_path": "$DRMAA2_HOME_DIR$/o"}, b"/w", b"/home/ann/o"),
        ({"working_directory": "/w", "output_path": RawBytes("/w==")}, b"/w", b"/w/\xff"),
    ],
)
def test_placeholders_and_relative_paths(template: dict[str, Any], cwd: bytes, stdout: bytes | None) -> None:
    found = files_of(STATE, attempt(**template).job, 5, 1, ACCOUNT)
    assert found.cwd == cwd
    assert stdout is None or found.stdout.path == stdout


def test_joined_by_word_or_by_path() -> None:
    assert files_of(STATE, attempt(join_files=True).job, 0, 1, ACCOUNT).stderr is None
    same = attempt(working_directory="/w", output_path="o", error_path="/w/o").job
    assert files_of(STATE, same, 0, 1, ACCOUNT).stderr is None


@pytest.mark.parametrize(
    ("template", "task", "number", "expected"),
    [
        ({"output_path": "o"}, 0, 1, True),
        ({"output_path": "o"}, 0, 2, False),
        ({"output_path": "o", "append_output": True}, 0, 1, False),
        ({"output_path": "o", "array": ArrayRange(2, 9)}, 2, 1, True),
        ({"output_path": "o", "array": ArrayRange(2, 9)}, 3, 1, False),
        ({"output_path": "o.$DRMAA2_INDEX$", "array": ArrayRange(2, 9)}, 3, 1, True),
        ({"output_path": "o.$DRMAA2_INDEX$", "array": ArrayRange(2, 9)}, 3, 2, False),
        ({"output_path": None}, 0, 2, True),
    ],
)
def test_when_a_file_is_emptied(template: dict[str, Any], task: int, number: int, expected: bool) -> None:
    job = attempt(**template).job
    assert truncates(job.template, job.template.output_path, job, task, number) is expected


def test_plain_local_jobs_go_the_fast_way(locality: Locality, tmp_path: Path) -> None:
    plain: dict[str, Any] = {"working_directory": str(tmp_path), "output_path": "new"}
    assert spec(locality, **plain)["fast"]
    for special in (
        {"nice": 1},
        {"umask": 0o200},
        {"resource_limits": {"OPEN_FILES": 9}},
        {"remote_command": "nothing"},
    ):
        assert "fast" not in spec(locality, **plain | special)
    other = Account(1, 1, (1,), b"x", b"/", b"/bin/sh", switch=True)
    assert "fast" not in spec(locality, other, **plain)


def test_another_users_job_names_its_ids(locality: Locality) -> None:
    other = Account(7, 8, (8, 9), b"x", b"/", b"/bin/sh", switch=True)
    made = spec(locality, other)
    assert (made["uid"], made["gid"], tuple(made["groups"])) == (7, 8, (8, 9))


def test_limits_have_the_kernels_names_and_units() -> None:
    wanted: dict[str, int | float | str] = {
        "CORE_FILE_SIZE": 0,
        "CPU_TIME": "1m",
        "DATA_SIZE": "1K",
        "FILE_SIZE": 5,
        "OPEN_FILES": "64",
        "STACK_SIZE": "unlimited",
        "VIRTUAL_MEMORY": "2GiB",
        "WALLCLOCK_TIME": "1h",
    }
    template = JobTemplate(remote_command="x", resource_limits=wanted)
    assert attributes.limits(template) == {
        "RLIMIT_CORE": [0, 0],
        "RLIMIT_CPU": [60, 60],
        "RLIMIT_DATA": [1024, 1024],
        "RLIMIT_FSIZE": [5, 5],
        "RLIMIT_NOFILE": [64, 64],
        "RLIMIT_STACK": [-1, -1],
        "RLIMIT_AS": [2 << 30, 2 << 30],
    }
    assert attributes.time_limit(template) == 3600


REFUSED: list[tuple[dict[str, Any], type[JobdError]]] = [
    ({"job_category": "x"}, UnsupportedAttribute),
    ({"email": ("a@b",)}, UnsupportedAttribute),
    ({"email_on_started": True}, UnsupportedAttribute),
    ({"stage_in_files": {"a": "b"}}, UnsupportedAttribute),
    ({"reservation_id": "r"}, UnsupportedAttribute),
    ({"accounting_id": "a"}, UnsupportedAttribute),
    ({"memory_limit": 1}, UnsupportedAttribute),
    ({"gpus": 1}, UnsupportedAttribute),
    ({"native": {"k": 1}}, UnsupportedAttribute),
    ({"max_slots": 4, "min_slots": 2}, UnsupportedAttribute),
    ({"resource_limits": {"NO_SUCH": 1}}, UnsupportedAttribute),
    ({"resource_limits": {"OPEN_FILES": "many"}}, InvalidArgument),
    ({"resource_limits": {"OPEN_FILES": -2}}, InvalidArgument),
    ({"resource_limits": {"WALLCLOCK_TIME": 0}}, InvalidArgument),
    ({"resource_limits": {"WALLCLOCK_TIME": 5}, "time_limit": 6.0}, InvalidArgument),
    ({"job_environment": {"": "x"}}, InvalidArgument),
    ({"job_environment": {"A=B": "x"}}, InvalidArgument),
    ({"candidate_machines": ("there",)}, InvalidArgument),
    ({"min_phys_memory": 1 << 60}, InvalidArgument),
    ({"machine_os": "WINNT"}, InvalidArgument),
    ({"machine_arch": "ALPHA"}, InvalidArgument),
]


@pytest.mark.parametrize(("template", "error"), REFUSED)
def test_what_can_not_be_honoured_is_refused_by_name(template: dict[str, Any], error: type[JobdError]) -> None:
    with pytest.raises(error) as raised:
        attributes.check(JobTemplate(remote_command="x", **template), "here")
    named = next(iter(template.get("resource_limits", template)))
    assert named in raised.value.message


def test_what_is_honoured_or_asks_for_nothing_passes() -> None:
    arch = "X64" if platform.machine() == "x86_64" else None
    template = JobTemplate(
        remote_command="x",
        candidate_machines=("there", "here"),
        min_phys_memory=1,
        machine_os="linux",
        machine_arch=arch,
        email_on_started=False,
        native={},
        slots=2,
        max_slots=2,
        resource_limits={"WALLCLOCK_TIME": 5},
        time_limit=5.0,
    )
    attributes.check(template, "here")
    assert to_bytes(template.remote_command) == b"x"
