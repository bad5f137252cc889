"""From the configuration to backends, by the entry-point group ``jobd.backends``: the built-in one, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path

import msgspec

from jobd.backends.base import Backend, Environments, Jobs, Observer
from jobd.config import BackendSection
from jobd.inotify import Inotify
from jobd.model.errors import InvalidArgument

GROUP = "jobd.backends"


class Surroundings(msgspec.Struct, frozen=True):
    """What every backend is made with.

    ``generation`` rises with each start of the daemon; ``machine`` is this host's name.
    """

    state_dir: Path
    store_id: str
    generation: int
    machine: str
    observer: Observer
    environments: Environments
    jobs: Jobs
    inotify: Inotify


Factory = Callable[[str, BackendSection, Surroundings], Backend]


def create(sections: Mapping[str, BackendSection], surroundings: Surroundings) -> dict[str, Backend]:
    """The configured backends, by name.

    Raises:
        InvalidArgument: nobody provides a kind.
    """
    return {name: _factory(section.kind)(name, section, surroundings) for name, section in sections.items()}


def _factory(kind: str) -> Factory:
    for entry in entry_points(group=GROUP, name=kind):
        factory: Factory = entry.load()
        return factory
    raise InvalidArgument(f"there is no backend of kind {kind!r}", hint="install the package that provides it")
