"""The configuration: a TOML file over the defaults. docs/configuration.md describes every key."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from jobd.cpus import usable_cpus
from jobd.model.errors import InvalidArgument
from jobd.model.suggest import unknown_name
from jobd.model.units import parse_duration, parse_size

_S = TypeVar("_S", bound=msgspec.Struct)

LOG_LEVELS = ("debug", "info", "warning", "error")
KINDS = ("process",)
_LATER_SECTIONS = ("queues",)
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
    """``[retention]``: finished jobs are forgotten at this age in seconds, or beyond this count."""

    finished: float | None = 30 * 86400.0
    count: int | None = None


class StorageSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[storage]``: bytes that must stay free; the smaller of this and 5 % of the volume counts."""

    min_free: int = 256 << 20


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The effective configuration.

    ``sources`` says for each ``section.key``, and for each backend, where it comes from: a file's path, or
    ``default``.
    """

    daemon: DaemonSection = DaemonSection()
    scheduler: SchedulerSection = SchedulerSection()
    backends: dict[str, BackendSection] = msgspec.field(default_factory=dict)
    retention: RetentionSection = RetentionSection()
    storage: StorageSection = StorageSection()
    sources: dict[str, str] = msgspec.field(default_factory=dict)


SECTIONS: Mapping[str, type[msgspec.Struct]] = {
    "daemon": DaemonSection,
    "scheduler": SchedulerSection,
    "retention": RetentionSection,
    "storage": StorageSection,
}

_MEASURES: Mapping[tuple[str, str], Callable[[str], float]] = {
    ("retention", "finished"): parse_duration,
    ("storage", "min_free"): parse_size,
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
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{path} is not UTF-8: {error}") from error
    except OSError as error:
        raise InvalidArgument(f"{path} can't be read: {os.strerror(error.errno or 0)}") from error


def _build(raw: dict[str, Any], source: str) -> Config:
    for name in raw:
        if name in _LATER_SECTIONS:
            raise InvalidArgument(f"[{name}] is not available in this version of jobd")
        if name not in (*SECTIONS, "backends"):
            raise unknown_name("section", name, (*SECTIONS, "backends"))
    sections = {name: _section(name, kind, raw.get(name, {})) for name, kind in SECTIONS.items()}
    values = {**sections, "backends": _backends(raw.get("backends", {})), "sources": _sources(raw, source)}
    config = msgspec.convert(values, Config)  # checks that the parts fit, which a call with ** can't
    _check(config)
    return config


def _section(name: str, kind: type[_S], values: Any) -> _S:
    if not isinstance(values, dict):
        raise InvalidArgument(f"{name} must be a table", hint=f"write [{name}]")
    for key in values:
        if key not in kind.__struct_fields__:
            raise unknown_name(f"key in [{name}]", key, kind.__struct_fields__)
    try:
        return msgspec.convert({key: _value(name, key, value) for key, value in values.items()}, kind)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"[{name}]: {error}") from error


def _value(section: str, key: str, value: Any) -> Any:
    """Durations and sizes as people write them; ``none`` for no limit."""
    if not isinstance(value, str) or (section, key) not in _MEASURES:
        return value
    if section == "retention" and value == "none":
        return None
    try:
        return _MEASURES[section, key](value)
    except InvalidArgument as error:
        raise InvalidArgument(f"[{section}] {key}: {error.message}", hint=error.hint) from error


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
    if name != "local":
        raise InvalidArgument(
            f"[backends.{name}]: there is one backend for processes, and it is called local",
            hint="write [backends.local]",
        )
    return section


def _check(config: Config) -> None:
    if config.daemon.log_level not in LOG_LEVELS:
        raise unknown_name("log_level in [daemon]", config.daemon.log_level, LOG_LEVELS)
    slots = config.scheduler.slots
    if slots != "cpus" and not (isinstance(slots, int) and slots >= 0):
        raise InvalidArgument(f'[scheduler] slots must be "cpus" or a number from 0, not {slots!r}')
    limits = {
        "[retention] finished": config.retention.finished,
        "[retention] count": config.retention.count,
        "[storage] min_free": config.storage.min_free,
    }
    for name, limit in limits.items():
        if limit is not None and limit < 0:
            raise InvalidArgument(f"{name} must be 0 or more, not {limit:g}")


def _sources(raw: dict[str, Any], source: str) -> dict[str, str]:
    keys = {
        f"{section}.{key}": source if key in raw.get(section, {}) else "default"
        for section, kind in SECTIONS.items()
        for key in kind.__struct_fields__
    }
    named = raw.get("backends", {})
    return keys | {f"backends.{name}": source if name in named else "default" for name in {"local": None, **named}}
