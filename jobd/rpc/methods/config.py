"""``config_show``: the configuration in force, and where each value comes from."""

from __future__ import annotations

from typing import Any

import msgspec

from jobd.rpc.context import Call
from jobd.rpc.dispatch import Method, NoParams


async def config_show(call: Call, params: NoParams) -> dict[str, Any]:
    """The effective configuration."""
    config = call.context.config()
    return {"config": msgspec.to_builtins(config), "sources": dict(config.sources)}


METHODS = {"config_show": Method(NoParams, config_show)}
