"""The JobInfo filter: cases D2-1 to D2-7 of the reference's tests, by DRMAA2's rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobd.model.info import JobInfo, matches

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FULL = JobInfo(
    job_id="7",
    job_name="n",
    session_name="s",
    backend="local",
    state="DONE",
    sub_state="x",
    exit_status=0,
    terminating_signal="SIGKILL",
    annotation="why",
    allocated_machines=("a", "b"),
    submission_machine="m",
    job_owner="o",
    slots=2,
    queue_name="q",
    submission_time=NOW,
    dispatch_time=NOW,
    finish_time=NOW,
    wallclock_time=3.0,
    cpu_time=2.0,
)
EXACT = [
    "job_id",
    "exit_status",
    "terminating_signal",
    "state",
    "sub_state",
    "submission_machine",
    "job_owner",
    "slots",
    "queue_name",
]


def one(**field: Any) -> JobInfo:
    """A filter on one field."""
    return JobInfo(**field)


@given(st.builds(JobInfo, exit_status=st.none() | st.integers(0, 255), job_id=st.none() | st.text()))
def test_d2_1_an_unset_filter_matches_anything(info: JobInfo) -> None:
    assert matches(JobInfo(), info)


def test_d2_2_a_zero_is_not_unset() -> None:
    assert matches(JobInfo(), FULL)
    assert not matches(one(slots=0), FULL)
    assert not matches(one(exit_status=0), msgspec.structs.replace(FULL, exit_status=None))


@pytest.mark.parametrize("field", EXACT)
def test_d2_3_exact_fields(field: str) -> None:
    value = getattr(FULL, field)
    assert matches(one(**{field: value}), FULL)
    assert not matches(one(**{field: "other" if isinstance(value, str) else value + 1}), FULL)
    assert not matches(one(**{field: value}), JobInfo())


def test_d2_3_the_annotation_does_not_count() -> None:
    assert matches(one(annotation="other"), FULL)


@pytest.mark.parametrize(
    ("machines", "fits"),
    [(("a",), True), (("b", "a"), True), (("a", "c"), False), (("c",), False), ((), True)],
)
def test_d2_4_machines_must_be_a_superset(machines: tuple[str, ...], fits: bool) -> None:
    assert matches(one(allocated_machines=machines), FULL) is fits


@pytest.mark.parametrize("field", ["wallclock_time", "cpu_time"])
def test_d2_5_durations_at_least(field: str) -> None:
    value = getattr(FULL, field)
    assert matches(one(**{field: value}), FULL)
    assert matches(one(**{field: value - 1}), FULL)
    assert not matches(one(**{field: value + 1}), FULL)
    assert not matches(one(**{field: 0.0}), JobInfo())


@pytest.mark.parametrize("field", ["submission_time", "dispatch_time", "finish_time"])
def test_d2_6_times_at_or_after(field: str) -> None:
    assert matches(one(**{field: NOW}), FULL)
    assert matches(one(**{field: NOW - timedelta(seconds=1)}), FULL)
    assert not matches(one(**{field: NOW + timedelta(seconds=1)}), FULL)


def test_d2_7_labels_must_all_be_there() -> None:
    info = msgspec.structs.replace(FULL, labels={"a": "1", "b": "2"})
    assert matches(one(labels={"a": "1"}), info)
    assert matches(one(labels={}), info)
    assert not matches(one(labels={"a": "2"}), info)
    assert not matches(one(labels={"c": "1"}), info)
