"""Job sessions (DRMAA2 SessionManager): named groups of jobs that outlive every client and daemon."""

from __future__ import annotations

import time
import uuid
from typing import Any

from jobd.bookkeeper.commands import CreateSession, DestroySession
from jobd.model.errors import InvalidArgument, NotFound
from jobd.rpc.context import Call
from jobd.rpc.dispatch import Method, NoParams, Params
from jobd.store import Session

DEFAULT = "default"


class CreateParams(Params):
    """A name (None: one is made up) and a contact string that is kept as given."""

    name: str | None = None
    contact: str | None = None


class NameParams(Params):
    """Which session."""

    name: str


async def session_create(call: Call, params: CreateParams) -> dict[str, Any]:
    """Make a session.

    Raises:
        InvalidArgument: there is one of that name, or the name is empty.
    """
    name = params.name if params.name is not None else f"session-{uuid.uuid4().hex[:12]}"
    if not name or not name.isprintable():
        raise InvalidArgument("a session's name must have characters that can be printed")
    if await exists(call, name):
        raise InvalidArgument(f"there is a session {name!r} already", hint="open it, or choose another name")
    session = Session(call.owner.uid, name, params.contact or "", time.time())
    await call.context.bookkeeper.ask(CreateSession(session))
    return {"name": session.name, "contact": session.contact}


async def session_open(call: Call, params: NameParams) -> dict[str, Any]:
    """A session that is there.

    Raises:
        NotFound: there is none of that name.
    """
    for session in await sessions(call):
        if session.name == params.name:
            return {"name": session.name, "contact": session.contact}
    raise NotFound(f"there is no session {params.name!r}", hint="jobd session list shows them")


async def session_destroy(call: Call, params: NameParams) -> dict[str, Any]:
    """Remove a session. Its jobs are left as they are (DRMAA2 destroyJobSession).

    Raises:
        NotFound: there is none of that name.
        InvalidArgument: it is the default session, which is always there.
    """
    await session_open(call, params)
    if params.name == DEFAULT:
        raise InvalidArgument("the default session can't be removed")
    await call.context.bookkeeper.ask(DestroySession(call.owner.uid, params.name))
    return {}


async def session_list(call: Call, params: NoParams) -> dict[str, Any]:
    """The caller's sessions."""
    return {"sessions": [{"name": session.name, "contact": session.contact} for session in await sessions(call)]}


async def sessions(call: Call) -> list[Session]:
    """The caller's sessions; the default one is there without being made."""
    stored = list(await call.context.store.sessions(call.owner.uid))
    return [Session(call.owner.uid, DEFAULT, "", 0.0), *(one for one in stored if one.name != DEFAULT)]


async def exists(call: Call, name: str) -> bool:
    """Whether the caller has a session of that name."""
    return name == DEFAULT or any(session.name == name for session in await sessions(call))


METHODS = {
    "session_create": Method(CreateParams, session_create),
    "session_open": Method(NameParams, session_open),
    "session_destroy": Method(NameParams, session_destroy),
    "session_list": Method(NoParams, session_list),
}
