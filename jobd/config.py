"""The configuration: a TOML file over the defaults. docs/configuration.md and config/jobd.toml describe every key."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from jobd.model.errors import InvalidArgument
from jobd.model.suggest import unknown_name
from jobd.model.units import parse_duration, parse_size

LOG_LEVELS = ("debug", "info", "warning", "error")
KINDS = ("process",)
_LATER = ("slurm", "gridengine", "htcondor", "pbs", "lsf", "kubernetes")


class DaemonSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[daemon]``."""

    log_level: str = "info"


class SchedulerSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[scheduler]``: ``slots`` is a number, or ``cpus`` for the CPUs that this process may use."""

    slots: int | str = "cpus"

    def effective_slots(self) -> int:
        """The number of slots."""
        return usable_cpus() if isinstance(self.slots, str) else self.slots


class BackendSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[backends.NAME]``."""

    kind: str = "process"


class RetentionSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[retention]``: finished jobs are forgotten at this age in seconds, or beyond this count; None keeps them."""

    finished: float | None = 30 * 86400.0
    count: int | None = None


class StorageSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[storage]``: bytes that must stay free; the smaller of this and 5 % of the volume counts."""

    min_free: int = 256 << 20


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The effective configuration. ``sources`` says for each ``section.key`` where its value comes from."""

    daemon: DaemonSection = DaemonSection()
    scheduler: SchedulerSection = SchedulerSection()
    backends: dict[str, BackendSection] = msgspec.field(default_factory=dict)
    retention: RetentionSection = RetentionSection()
    storage: StorageSection = StorageSection()
    sources: dict[str, str] = msgspec.field(default_factory=dict)


_SECTIONS: Mapping[str, type[msgspec.Struct]] = {
    "daemon": DaemonSection,
    "scheduler": SchedulerSection,
    "retention": RetentionSection,
    "storage": StorageSection,
}


def load(path: Path) -> Config:
    """Read and check a configuration file; one that is not there is an empty one.

    Raises:
        InvalidArgument: it can't be read, a key is unknown, or a value is not valid; names file and key.
    """
    raw = _read(path)
    try:
        return _build(raw, str(path))
    except InvalidArgument as error:
        raise InvalidArgument(f"{path}: {error.message}", hint=error.hint) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument(f"{path} is not valid TOML: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{path} can't be read: {error}") from error


def _build(raw: dict[str, Any], source: str) -> Config:
    for name in raw:
        if name not in (*_SECTIONS, "backends"):
            raise unknown_name("section", name, (*_SECTIONS, "backends"))
    sections = {name: _section(name, kind, raw.get(name, {})) for name, kind in _SECTIONS.items()}
    config = Config(**sections, backends=_backends(raw.get("backends", {})), sources=_sources(raw, source))  # type: ignore[arg-type]
    _check(config)
    return config


def _section(name: str, kind: type[msgspec.Struct], values: Any) -> msgspec.Struct:
    if not isinstance(values, dict):
        raise InvalidArgument(f"[{name}] must be a table")
    for key in values:
        if key not in kind.__struct_fields__:
            raise unknown_name(f"key in [{name}]", key, kind.__struct_fields__)
    try:
        return msgspec.convert({key: _value(name, key, value) for key, value in values.items()}, kind)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"[{name}]: {error}") from error


def _value(section: str, key: str, value: Any) -> Any:
    """Durations and sizes as people write them; ``none`` for no limit."""
    if (section, key) == ("retention", "finished") and isinstance(value, str):
        return None if value == "none" else parse_duration(value)
    if (section, key) == ("storage", "min_free") and isinstance(value, str):
        return parse_size(value)
    return value


def _backends(raw: Any) -> dict[str, BackendSection]:
    if not isinstance(raw, dict):
        raise InvalidArgument("[backends] must hold a table for each backend")
    found = {name: _backend(name, values) for name, values in raw.items()}
    return {"local": BackendSection(), **found}


def _backend(name: str, values: Any) -> BackendSection:
    kind = values.get("kind", "process") if isinstance(values, dict) else "process"
    if kind in _LATER:
        raise InvalidArgument(f"[backends.{name}]: kind {kind!r} is not available in this version of jobd")
    if kind not in KINDS:
        raise unknown_name(f"kind in [backends.{name}]", str(kind), KINDS)
    section = _section(f"backends.{name}", BackendSection, values)
    assert isinstance(section, BackendSection)
    if name != "local":
        raise InvalidArgument(f"[backends.{name}]: the backend for processes is called local", hint="[backends.local]")
    return section


def _check(config: Config) -> None:
    if config.daemon.log_level not in LOG_LEVELS:
        raise unknown_name("log_level in [daemon]", config.daemon.log_level, LOG_LEVELS)
    slots = config.scheduler.slots
    if slots != "cpus" and not (isinstance(slots, int) and slots >= 0):
        raise InvalidArgument(f'[scheduler] slots must be "cpus" or a number from 0, not {slots!r}')
    if config.retention.count is not None and config.retention.count < 0:
        raise InvalidArgument("[retention] count must be 0 or more")
    if config.storage.min_free < 0:
        raise InvalidArgument("[storage] min_free must be 0 or more")


def _sources(raw: dict[str, Any], source: str) -> dict[str, str]:
    return {
        f"{section}.{key}": source if key in raw.get(section, {}) else "default"
        for section, kind in _SECTIONS.items()
        for key in kind.__struct_fields__
    }


def usable_cpus() -> int:
    """CPUs that this process may use: by affinity, and by the quota of its control group, rounded up."""
    count = len(os.sched_getaffinity(0))
    quota = cgroup_quota()
    return max(1, count if quota is None else min(count, math.ceil(quota)))


def cgroup_quota(proc: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """CPUs that the control group allows (cpu.max of cgroup v2, cpu.cfs_quota_us of v1); None without a limit."""
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
