"""``hello``: the first request on every connection."""

from __future__ import annotations

from typing import Any

from jobd import __version__
from jobd.model.errors import ProtocolMismatch
from jobd.protocol.messages import PROTOCOL_VERSIONS
from jobd.rpc.context import Call
from jobd.rpc.dispatch import Method, Params


class HelloParams(Params):
    """The oldest and newest protocol that the client speaks, and what it is."""

    protocol: tuple[int, int]
    program: str = ""


async def hello(call: Call, params: HelloParams) -> dict[str, Any]:
    """Choose the newest protocol that both speak.

    Raises:
        ProtocolMismatch: there is none.
    """
    version = min(params.protocol[1], PROTOCOL_VERSIONS[1])
    if version < max(params.protocol[0], PROTOCOL_VERSIONS[0]):
        raise ProtocolMismatch(
            f"this daemon speaks protocol {PROTOCOL_VERSIONS[0]} to {PROTOCOL_VERSIONS[1]}, the client "
            f"{params.protocol[0]} to {params.protocol[1]}",
            hint="use a client and a daemon of the same release",
        )
    context = call.context
    return {
        "protocol": version,
        "version": __version__,
        "ready": context.ready.is_set(),
        "store": context.store.store_id,
        "uid": context.uid,
    }


METHODS = {"hello": Method(HelloParams, hello, early=True)}
