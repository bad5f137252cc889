"""jobd: one durable daemon in front of every place a job can run.

Names are loaded when they are first used, so that the command line starts without them.
"""

from __future__ import annotations

__version__ = "0.1.0"

# Not from typing, whose import costs the keeper memory and each command milliseconds; type checkers know the name.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from jobd.client import Capability, Client, Event, Job, JobSession, Truncated, connect
    from jobd.model.errors import JobdError
    from jobd.model.info import JobInfo
    from jobd.model.states import JobState
    from jobd.model.template import JobTemplate

_HOMES = {
    "Capability": "jobd.client",
    "Client": "jobd.client",
    "Event": "jobd.client",
    "Job": "jobd.client",
    "JobInfo": "jobd.model.info",
    "JobSession": "jobd.client",
    "JobState": "jobd.model.states",
    "JobTemplate": "jobd.model.template",
    "JobdError": "jobd.model.errors",
    "Truncated": "jobd.client",
    "connect": "jobd.client",
}

__all__ = [
    "Capability",
    "Client",
    "Event",
    "Job",
    "JobInfo",
    "JobSession",
    "JobState",
    "JobTemplate",
    "JobdError",
    "Truncated",
    "__version__",
    "connect",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'jobd' has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(home), name)
    return value
