"""From a line to a method and back: decoding, the table of methods, and errors as responses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec
import structlog

from jobd.model.errors import Internal, InvalidArgument, JobdError
from jobd.protocol.messages import INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from jobd.rpc.context import Call

_log = structlog.get_logger(__name__)


_NO_PARAMS = msgspec.Raw(b"{}")


class Envelope(msgspec.Struct):
    """A JSON-RPC request or notification; params are decoded by the method."""

    method: str
    id: int | str | None = None
    params: msgspec.Raw = _NO_PARAMS
    jsonrpc: str = "2.0"


class Params(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The base of every method's parameters: a name that the method does not have is an error, not ignored."""


class NoParams(Params):
    """For methods that take none."""


class Method(NamedTuple):
    """A method: the type of its parameters and what serves it. ``early``: it is answered before recovery is done."""

    params: type[Params]
    serve: Callable[[Call, Any], Awaitable[Any]]
    early: bool = False


class Stream(NamedTuple):
    """A result that goes on: ``run`` sends notifications after the answer ``first``, until it is done or cancelled."""

    run: Callable[[], Awaitable[None]]
    first: Mapping[str, Any] | None = None


class BadMessage(JobdError):
    """A message that is no JSON-RPC request; ``code`` is JSON-RPC's own."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message, hint="docs/protocol.md shows every method")
        self.rpc_code = code

    def to_wire(self) -> dict[str, Any]:
        """As JSON-RPC wants it."""
        return {**super().to_wire(), "code": self.rpc_code}


_envelope = msgspec.json.Decoder(Envelope)


def decode(line: bytes) -> Envelope:
    """A request from a line.

    Raises:
        BadMessage: it is no JSON, or no request.
    """
    try:
        return _envelope.decode(line)
    except msgspec.ValidationError as error:
        raise BadMessage(f"this is no request: {error}", INVALID_REQUEST) from error
    except msgspec.DecodeError as error:
        raise BadMessage(f"this is no JSON: {error}", PARSE_ERROR) from error


async def serve(call: Call, envelope: Envelope, methods: dict[str, Method]) -> tuple[bytes, Stream | None]:
    """Serve one request; the line that answers it, and what follows the answer."""
    stream = None
    try:
        result = await _result(call, envelope, methods)
        if isinstance(result, Stream):
            stream, result = result, result.first or {}
        body: dict[str, Any] = {"result": result}
    except JobdError as error:
        body = {"error": error.to_wire()}
    except Exception as error:  # noqa: BLE001 (logged, and answered)
        # A fault of ours must reach the caller as an answer, or it would wait for ever; the log has the traceback.
        _log.exception("a request failed", method=envelope.method)
        body = {"error": Internal(f"jobd failed: {type(error).__name__}: {error}").to_wire()}
    return respond(envelope.id, body), stream


async def _result(call: Call, envelope: Envelope, methods: dict[str, Method]) -> Any:
    method = methods.get(envelope.method)
    if method is None:
        raise BadMessage(f"there is no method {envelope.method!r}", METHOD_NOT_FOUND)
    try:
        params = msgspec.json.decode(envelope.params, type=method.params)
    except msgspec.DecodeError as error:
        raise InvalidArgument(f"{envelope.method}: {error}") from error
    if not method.early:
        await call.context.wait_ready()
    return await method.serve(call, params)


def respond(id: int | str | None, body: dict[str, Any]) -> bytes:
    """A response line."""
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, **body}) + b"\n"


def notification(method: str, params: Any) -> bytes:
    """A notification line."""
    return msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params}) + b"\n"
