"""The CPUs that this process may use, by affinity and control group."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jobd import cpus


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    return tmp_path / "cgroup"


def limit(root: Path, group: str, name: str, value: str) -> None:
    folder = root / group
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(value)


def test_a_quota_of_version_2(proc: Path, tmp_path: Path) -> None:
    proc.write_text("0::/a/b\n")
    limit(tmp_path, "a/b", "cpu.max", "150000 100000\n")
    assert cpus.cgroup_quota(proc, tmp_path) == 1.5


def test_the_tightest_of_all_groups_above_counts(proc: Path, tmp_path: Path) -> None:
    proc.write_text("0::/a/b\n")
    limit(tmp_path, "a/b", "cpu.max", "400000 100000\n")
    limit(tmp_path, "a", "cpu.max", "200000 100000\n")
    assert cpus.cgroup_quota(proc, tmp_path) == 2


def test_no_quota(proc: Path, tmp_path: Path) -> None:
    proc.write_text("0::/a\n")
    limit(tmp_path, "a", "cpu.max", "max 100000\n")
    assert cpus.cgroup_quota(proc, tmp_path) is None


def test_a_quota_of_version_1(proc: Path, tmp_path: Path) -> None:
    proc.write_text("3:cpu,cpuacct:/x\n2:memory:/x\n0::/\n")
    limit(tmp_path, "cpu/x", "cpu.cfs_quota_us", "50000\n")
    limit(tmp_path, "cpu/x", "cpu.cfs_period_us", "100000\n")
    limit(tmp_path, "cpu", "cpu.cfs_quota_us", "-1\n")
    assert cpus.cgroup_quota(proc, tmp_path) == 0.5


def test_no_control_groups(tmp_path: Path) -> None:
    assert cpus.cgroup_quota(tmp_path / "none", tmp_path) is None


@pytest.mark.parametrize(("quota", "expected"), [(None, None), (0.2, 1), (1.5, 2), (10_000.0, None)])
def test_a_part_of_a_cpu_counts_as_one(
    quota: float | None, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpus, "cgroup_quota", lambda: quota)
    affinity = len(os.sched_getaffinity(0))
    assert cpus.usable_cpus() == min(affinity, affinity if expected is None else expected)
