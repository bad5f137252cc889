"""A job session: a named group of jobs that outlives clients and daemons (DRMAA2 JobSession)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

from jobd.client.job import Job, wait_any
from jobd.client.link import Link
from jobd.client.wire import to_wire
from jobd.model.errors import DeniedByDrms, InvalidArgument, InvalidSession, NotFound
from jobd.model.info import JobInfo
from jobd.model.template import JobTemplate, parse_template

Template = JobTemplate | Mapping[str, Any]
"""A template, or its attributes by their names. Paths, arguments and the like may be str, bytes or ``os.PathLike``."""


class JobSession:
    """A session that is open. Closing it leaves its jobs alone; any call after that raises InvalidSession.

    As ``async with`` it is closed at the end, unless it was before.
    """

    def __init__(self, link: Link, name: str, contact: str | None) -> None:
        self._link = link
        self._ended: str | None = None
        self.name = name
        self.contact = contact

    def __repr__(self) -> str:
        return f"<JobSession {self.name!r}>"

    async def __aenter__(self) -> Self:
        self._require_open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end("closed")

    @property
    def job_categories(self) -> tuple[str, ...]:
        """The values that a template's ``job_category`` may have: none, for jobs that are processes."""
        self._require_open()
        return ()

    async def close(self) -> None:
        """Be done with it (DRMAA2 closeJobSession).

        Raises:
            InvalidSession: it was closed or destroyed before.
        """
        self._require_open()
        self.end("closed")

    def end(self, how: str) -> None:
        """Refuse every later call, saying how it ended; the first reason stays."""
        self._ended = self._ended or how

    async def run_job(self, template: Template, request_id: str | None = None) -> Job:
        """Submit a job (DRMAA2 runJob). When it returns, the job is on disk and is kept.

        Args:
            template: what to run; nothing of this process's environment or working directory goes along.
            request_id: makes the submission repeatable: the same id again returns the same job, also from another
                process. Without one, here or in the template, the client makes one up, so that a submission whose
                answer was lost in a restart of the daemon is not done twice.

        Raises:
            InvalidArgument: the template is not valid, or the request id came with another one before.
            UnsupportedAttribute: the backend can't honour an attribute of it.
            OutOfResource: there is no room for new work.
        """
        return (await self.run_jobs([template], request_id))[0]

    async def run_jobs(self, templates: Sequence[Template], request_id: str | None = None) -> list[Job]:
        """Submit several jobs in one transaction, all or none; they get consecutive ids.

        Raises:
            InvalidArgument: there is no template, or one is not valid; the message says which.
            UnsupportedAttribute: the backend can't honour an attribute of one.
            OutOfResource: there is no room for new work.
        """
        self._require_open()
        if not templates:
            raise InvalidArgument("there is no template to submit")
        plain = [to_wire(template) for template in templates]
        raw = [self._with_session(template) for template in plain]
        params = {"templates": raw, "request_id": request_id or _own_request_id(raw)}
        try:
            answer = await self._link.call("submit", params)
        except NotFound:
            await self._require_there()
            raise
        return [
            Job(self._link, row["job_id"], self.name, parse_template(template))
            for row, template in zip(answer["jobs"], plain, strict=True)
        ]

    async def get_jobs(self, filter: JobInfo | None = None) -> list[Job]:
        """The session's jobs that are known still, in order of id (DRMAA2 getJobs).

        Args:
            filter: what they must be like, None for all. Attributes must be equal; durations and times at least as
                given; the job's machines must be among them; the annotation does not count.
        """
        self._require_open()
        wanted = msgspec.structs.replace(filter or JobInfo(), session_name=self.name)
        if filter is not None and filter.session_name not in (None, self.name):
            return []
        # By id the daemon finds one job without looking at all others.
        selection = {"ids": [wanted.job_id]} if wanted.job_id is not None else {"session": self.name}
        try:
            answer = await self._link.call("list", {"selection": selection, "filter": wanted})
        except (InvalidArgument, DeniedByDrms):
            if wanted.job_id is None:
                raise
            return []
        return [Job(self._link, row["job_id"], self.name) for row in answer["jobs"]]

    async def get_job(self, id: str | int) -> Job:
        """A job of this session by its id.

        Raises:
            NotFound: there is none of that id in this session.
        """
        found = await self.get_jobs(JobInfo(job_id=str(id)))
        if not found:
            raise NotFound(f"there is no job {id} in session {self.name!r}", jobs=[str(id)])
        return found[0]

    async def wait_any_started(self, jobs: Sequence[Job], timeout: float | None = None) -> Job:
        """The first of these jobs that has started (DRMAA2 waitAnyStarted).

        Args:
            jobs: jobs of this session, at least one.
            timeout: seconds; 0 asks and returns at once, None waits for ever.

        Raises:
            Timeout: none did in time.
            InvalidArgument: there is no job, or one of another session.
            InvalidState: all ended without having started.
        """
        return await self._wait_any(jobs, "started", timeout)

    async def wait_any_terminated(self, jobs: Sequence[Job], timeout: float | None = None) -> Job:
        """The first of these jobs that is DONE or FAILED (DRMAA2 waitAnyTerminated). For the next, leave it out.

        Args:
            jobs: jobs of this session, at least one.
            timeout: seconds; 0 asks and returns at once, None waits for ever.

        Raises:
            Timeout: none did in time.
            InvalidArgument: there is no job, or one of another session.
        """
        return await self._wait_any(jobs, "terminated", timeout)

    async def _wait_any(self, jobs: Sequence[Job], goal: str, timeout: float | None) -> Job:
        self._require_open()
        for job in jobs:
            if job.session_name != self.name:
                raise InvalidArgument(f"job {job.id} belongs to session {job.session_name!r}", jobs=[job.id])
        return await wait_any(self._link, jobs, goal, timeout)

    def _with_session(self, raw: dict[str, Any]) -> dict[str, Any]:
        if raw.get("session") not in (None, self.name):
            raise InvalidArgument(
                f"the template is for session {raw['session']!r}, and this is {self.name!r}",
                hint="submit it through that session, or leave session out",
            )
        return {**raw, "session": self.name}

    def _require_open(self) -> None:
        if self._ended is not None:
            raise InvalidSession(f"session {self.name!r} is {self._ended}", hint="open it anew")

    async def _require_there(self) -> None:
        """Tell a session that someone destroyed from a queue or backend that there is not."""
        try:
            await self._link.call("session_open", {"name": self.name})
        except NotFound as error:
            self.end("destroyed")
            raise InvalidSession(f"session {self.name!r} is destroyed", hint="create it anew") from error


def _own_request_id(raw: list[dict[str, Any]]) -> str:
    given: str | None = raw[0].get("request_id") if len(raw) == 1 else None
    return given or f"client-{uuid.uuid4().hex}"
