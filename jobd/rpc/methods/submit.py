"""``submit``: jobs are taken, all or none, and answered for after the commit."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from jobd.bookkeeper.commands import NewJob, Submit, same_request
from jobd.model.errors import InvalidArgument, JobdError
from jobd.model.template import Captured, JobTemplate, parse_template
from jobd.rpc import admission, capture
from jobd.rpc.context import Call
from jobd.rpc.dispatch import Method, Params
from jobd.rpc.methods import session


class SubmitParams(Params):
    """Templates with DRMAA2's names, what they get without words, and an id that makes it safe to repeat."""

    templates: list[dict[str, Any]]
    captured: Captured | None = None
    request_id: str | None = None


async def submit(call: Call, params: SubmitParams) -> dict[str, Any]:
    """Take jobs in one transaction.

    Raises:
        InvalidArgument: a template is not valid, or the request id came with another one.
        UnsupportedAttribute: the backend can't honour it.
        OutOfResource: no room on disk.
    """
    if not params.templates:
        raise InvalidArgument("there is no template to submit")
    templates = [_parse(params, number) for number in range(len(params.templates))]
    request_id = params.request_id or _own_request_id(templates)
    digest = _digest(params)
    if request_id is not None:
        known = await call.context.bookkeeper.known_request(call.owner.uid, request_id)
        if known is not None:
            return await _answer(call, same_request(known, digest))
    await call.context.room()
    ids = await _commit(call, params, templates, request_id, digest)
    return await _answer(call, ids)


async def _commit(
    call: Call, params: SubmitParams, templates: list[JobTemplate], request_id: str | None, digest: bytes
) -> range:
    bookkeeper = call.context.bookkeeper
    captured = params.captured or Captured()
    async with capture.stored_input(call.context, captured) as input_path:
        command = Submit(
            owner=call.owner,
            machine=call.context.machine,
            jobs=await _prepare(call, templates, captured, input_path),
            request_id=request_id,
            digest=digest,
            recent_requests=bookkeeper.recent_requests,
        )
        ids: range = await bookkeeper.ask(command)
    return ids


def _own_request_id(templates: list[JobTemplate]) -> str | None:
    """The request id in a template, which names a whole request: so it can only be that of one."""
    if len(templates) > 1 and any(template.request_id is not None for template in templates):
        raise InvalidArgument("a request_id is for all templates of a request", hint="give it beside them, not in them")
    return templates[0].request_id


def _parse(params: SubmitParams, number: int) -> JobTemplate:
    try:
        return parse_template(params.templates[number])
    except JobdError as error:
        raise _with_number(error, number, len(params.templates)) from error


async def _prepare(
    call: Call, templates: list[JobTemplate], captured: Captured, input_path: str | None
) -> list[NewJob]:
    environments = capture.Environments(captured)
    sessions = {one.name for one in await session.sessions(call)}
    jobs = []
    for number, template in enumerate(templates):
        full = capture.fill_in(template, captured, input_path)
        try:
            backend = admission.admit(call, full, sessions)
        except JobdError as error:
            raise _with_number(error, number, len(templates)) from error
        jobs.append(
            NewJob(
                template=full,
                session=full.session or session.DEFAULT,
                backend=backend.name,
                queue=full.queue_name or admission.DEFAULT_QUEUE,
                environment=environments.of(full),
            )
        )
    return jobs


def _with_number(error: JobdError, number: int, count: int) -> JobdError:
    """The error with the template's number, where there are several."""
    if count == 1:
        return error
    return type(error)(f"template {number + 1}: {error.message}", hint=error.hint)


def _digest(params: SubmitParams) -> bytes:
    """What was asked for in words: the same command from another shell is the same request."""
    words = [{name: value for name, value in raw.items() if name != "request_id"} for raw in params.templates]
    return hashlib.sha256(msgspec.json.encode(words, order="deterministic")).digest()


async def _answer(call: Call, ids: range) -> dict[str, Any]:
    """The ids, with the state of those that are active; a job that was reaped since has none."""
    picture = call.context.bookkeeper.picture
    rows = []
    for id in ids:
        entry = picture.get(id)
        rows.append({"job_id": str(id), "state": entry.runs[0].state.name if entry else None})
    return {"jobs": rows}


METHODS = {"submit": Method(SubmitParams, submit)}
