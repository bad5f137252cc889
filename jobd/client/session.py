"""A job session: submits jobs and finds them again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from jobd.client.job import Job
from jobd.client.templates import wire_template
from jobd.model.errors import InvalidArgument, InvalidSession
from jobd.model.info import JobInfo
from jobd.model.states import JobState
from jobd.model.template import JobTemplate

if TYPE_CHECKING:
    from jobd.client.client import Client


class JobSession:
    """An open session (DRMAA2 JobSession). Its jobs outlive it, the client and the daemon."""

    def __init__(self, client: Client, name: str, contact: str) -> None:
        self.client = client
        self.name = name
        self.contact = contact
        self._closed = False

    async def close(self) -> None:
        """Disengage; jobs are not affected (DRMAA2 close).

        Raises:
            InvalidSession: it was closed before.
        """
        self._check()
        self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise InvalidSession(f"session {self.name} was closed", hint="open it again")

    async def request(self, method: str, params: Any) -> Any:
        """A request to the daemon, while the session is open.

        Raises:
            InvalidSession: it was closed.
            JobdError: what the daemon answers.
        """
        self._check()
        return await self.client.request(method, params)

    @property
    def job_categories(self) -> tuple[str, ...]:
        """Names that ``job_category`` can have (DRMAA2 jobCategories): processes have none."""
        self._check()
        return ()

    async def run_job(self, template: JobTemplate, *, request_id: str | None = None) -> Job:
        """Submit a job (DRMAA2 runJob); returns when it is on record.

        The same ``request_id`` again returns the same job.

        Raises:
            InvalidArgument: the template is not valid, or the request id came with another one.
            UnsupportedAttribute: an attribute can't be honoured.
        """
        return (await self.run_jobs([template], request_id=request_id))[0]

    async def run_jobs(self, templates: Sequence[JobTemplate], *, request_id: str | None = None) -> list[Job]:
        """Submit jobs in one transaction, all or none; their ids are consecutive.

        Raises:
            InvalidArgument: a template is not valid; names which.
            UnsupportedAttribute: an attribute can't be honoured.
        """
        params = {
            "templates": [self._wire(template) for template in templates],
            "request_id": request_id or templates[0].request_id if len(templates) == 1 else request_id,
        }
        # With an id of its own a submission that was cut off can be sent again without running anything twice.
        params["request_id"] = params["request_id"] or os.urandom(16).hex()
        rows = (await self.request("submit", params))["jobs"]
        return [Job(self, row["job_id"]) for row in rows]

    def _wire(self, template: JobTemplate) -> dict[str, Any]:
        wire = wire_template(template)
        wire.pop("request_id", None)
        if wire.setdefault("session", self.name) != self.name:
            raise InvalidArgument(f"the template is for session {wire['session']}, this one is {self.name}")
        if self.name == "default":
            del wire["session"]
        return wire

    async def get_jobs(self, filter: JobInfo | None = None) -> list[Job]:
        """The session's jobs that a filter lets through, by DRMAA2's rules (GFD.231, JobInfo as filter)."""
        params: dict[str, Any] = {"selection": {"session": self.name}}
        if filter is not None:
            set_fields = {name: value for name, value in msgspec.structs.asdict(filter).items() if value is not None}
            params["filter"] = msgspec.to_builtins(set_fields)
        rows = (await self.request("list", params))["jobs"]
        return [Job(self, row["job_id"]) for row in rows]

    async def get_job(self, id: str) -> Job:
        """A job by its id.

        Raises:
            NotFound: there is none, or it is another session's.
        """
        rows = (await self.request("list", {"selection": {"ids": [id]}}))["jobs"]
        if len(rows) != 1 or rows[0]["session_name"] != self.name:
            raise InvalidArgument(f"session {self.name} has no job {id}", jobs=[id])
        return Job(self, rows[0]["job_id"])

    async def wait_any_started(self, jobs: Sequence[Job], timeout: float | None = None) -> Job:
        """The first of the jobs that has started (DRMAA2 waitAnyStarted).

        Raises:
            InvalidArgument: no job was given.
            Timeout: none in that time.
            InvalidState: none can any more.
        """
        return self._job(await self.wait(jobs, "started", timeout, any_of=True))

    async def wait_any_terminated(self, jobs: Sequence[Job], timeout: float | None = None) -> Job:
        """The first of the jobs that has ended (DRMAA2 waitAnyTerminated).

        Raises:
            InvalidArgument: no job was given.
            Timeout: none in that time.
        """
        return self._job(await self.wait(jobs, "terminated", timeout, any_of=True))

    def _job(self, infos: list[JobInfo]) -> Job:
        return Job(self, str(infos[0].job_id))

    async def wait(
        self, jobs: Sequence[Job], goal: str | JobState, timeout: float | None, *, any_of: bool
    ) -> list[JobInfo]:
        """Wait until all the jobs, or any, come to a goal; how they stood then.

        Raises:
            InvalidArgument: no job was given.
            Timeout: not in that time.
            InvalidState: it can't come any more.
        """
        if not jobs:
            raise InvalidArgument("there is no job to wait for")
        until = None if timeout is None else anyio.current_time() + timeout

        def params() -> dict[str, Any]:
            left = None if until is None else max(0.0, until - anyio.current_time())
            return {
                "selection": {"ids": [job.id for job in jobs]},
                "for": goal.name if isinstance(goal, JobState) else goal,
                "any": any_of,
                "timeout": left,
            }

        rows = (await self.request("wait", params))["jobs"]
        return [msgspec.convert(row, JobInfo) for row in rows]
