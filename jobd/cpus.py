"""How many CPUs this process may use: what ``[scheduler] slots = "cpus"`` stands for."""

from __future__ import annotations

import math
import os
from pathlib import Path


def usable_cpus() -> int:
    """CPUs that this process may use: by affinity, and by the quota of its control group, rounded up."""
    count = len(os.sched_getaffinity(0))
    quota = cgroup_quota()
    return max(1, count if quota is None else min(count, math.ceil(quota)))


def cgroup_quota(proc: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """CPUs that the control group allows; None without a limit.

    Version 2 has it in cpu.max, version 1 in cpu.cfs_quota_us (cgroups(7)).
    """
    try:
        lines = proc.read_text().splitlines()
    except OSError:
        return None
    quotas = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:
            quotas += [_quota_v2(folder) for folder in _up(root, group)]
        elif "cpu" in controllers.split(","):
            quotas += [_quota_v1(folder) for folder in _up(root / "cpu", group)]
    found = [quota for quota in quotas if quota]
    return min(found) if found else None


def _up(root: Path, group: str) -> list[Path]:
    """The group's folder and those above it: each may set a limit."""
    inner = root / group.lstrip("/")
    return [folder for folder in (inner, *inner.parents) if folder == root or root in folder.parents]


def _quota_v2(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


def _quota_v1(folder: Path) -> float | None:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        return None if quota < 0 else quota / int((folder / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
