"""JSON-RPC 2.0 messages: requests, responses and notifications, as the command line and the client speak them.

The daemon decodes the same with msgspec (jobd/rpc); the shapes are those of this module.
"""

from __future__ import annotations

import json

from jobd.model.errors import Internal, ProtocolMismatch, from_wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROTOCOL_VERSIONS = (1, 1)
"""The oldest and the newest version of the protocol that this code speaks."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601


def request(number: int, method: str, params: dict[str, Any]) -> bytes:
    """One request, as a line."""
    return _line({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def cancel(number: int) -> bytes:
    """The notification that cancels a request which still runs, or ends the stream that it began."""
    return _line({"jsonrpc": "2.0", "method": "cancel", "params": {"id": number}})


def hello_params(program: str) -> dict[str, Any]:
    """The first request on every connection: the versions that the caller speaks, and who it is."""
    return {"protocol": list(PROTOCOL_VERSIONS), "program": program}


def check_hello(result: dict[str, Any]) -> None:
    """Look at the daemon's answer to ``hello``.

    Raises:
        ProtocolMismatch: it chose a version that this code does not speak.
    """
    oldest, newest = PROTOCOL_VERSIONS
    if not oldest <= int(result.get("protocol", 0)) <= newest:
        raise ProtocolMismatch(
            f"the daemon is jobd {result.get('version')}, which this client does not understand",
            hint="restart the daemon after an upgrade (jobd shutdown), or use its client",
        )


def parse(line: bytes) -> dict[str, Any]:
    """A message from a line.

    Raises:
        Internal: it is no JSON object.
    """
    try:
        message = json.loads(line)
    except ValueError as error:
        raise Internal("the daemon sent something that is not JSON") from error
    if not isinstance(message, dict):
        raise Internal("the daemon sent something that is not a message")
    return message


def outcome(message: dict[str, Any]) -> Any:
    """The result in a response.

    Raises:
        JobdError: the error in it, as its own class.
    """
    error = message.get("error")
    if error is not None:
        raise from_wire(error)
    return message.get("result")


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
