"""A job, from the side of whoever submitted it (DRMAA2 Job)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from jobd.client.link import Link
from jobd.client.logs import LogStream, StreamName
from jobd.model.errors import InvalidArgument, InvalidState, JobdError, NotFound, from_wire
from jobd.model.info import JobInfo
from jobd.model.states import JobState
from jobd.model.template import JobTemplate

_HELD = (JobState.QUEUED_HELD, JobState.REQUEUED_HELD)


class Job:
    """A handle on one job; it holds an id, and the daemon knows the rest.

    Any method raises NotFound (an InvalidArgument, as DRMAA2 has it) once the job has been reaped, DeniedByDrms for
    another user's job, and DrmCommunication where the daemon stays away. Control returns once its effect is observed.
    If a restart of the daemon cuts a control call off, it is sent again, and counts as done if the job is as wanted.
    """

    __slots__ = ("_link", "_template", "id", "session_name")

    def __init__(self, link: Link, id: str, session_name: str, template: JobTemplate | None = None) -> None:
        self._link = link
        self._template = template
        self.id = id
        self.session_name = session_name

    def __repr__(self) -> str:
        return f"<Job {self.id} of session {self.session_name!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and (self._link, self.id) == (other._link, other.id)

    def __hash__(self) -> int:
        return hash(self.id)

    async def job_template(self) -> JobTemplate:
        """The template: equal to the submitted one, for a handle that ``run_job`` returned.

        For any other handle it is as the daemon shows it: with ``session`` filled in, and without
        ``job_environment``, whose values are secrets.
        """
        row = (await self._link.call("show", {"selection": self._selection}))["jobs"][0]
        if self._template is not None:
            return self._template
        raw = {name: value for name, value in row["template"].items() if name != "job_environment"}
        return msgspec.convert(raw, JobTemplate)

    async def state(self) -> JobState:
        """The state at this moment; ``info().sub_state`` has the backend's own word for it."""
        return JobState[(await self.info()).state or JobState.UNDETERMINED.name]

    async def info(self) -> JobInfo:
        """All that is known. What is not known is None, and an exit status is there only if it exited with one."""
        answer = await self._link.call("list", {"selection": self._selection})
        return msgspec.convert(answer["jobs"][0], JobInfo)

    async def wait_started(self, timeout: float | None = None) -> JobInfo:
        """Wait until it has started, or has been started and is past that (DRMAA2 waitStarted).

        Args:
            timeout: seconds; 0 asks and returns at once, None waits for ever.

        Raises:
            Timeout: it did not come in time.
            InvalidState: it ended without having started.
        """
        return await self._wait("started", timeout)

    async def wait_terminated(self, timeout: float | None = None) -> JobInfo:
        """Wait until it is DONE or FAILED (DRMAA2 waitTerminated).

        Args:
            timeout: seconds; 0 asks and returns at once, None waits for ever.

        Raises:
            Timeout: it did not come in time.
        """
        return await self._wait("terminated", timeout)

    async def wait_for(self, state: JobState, timeout: float | None = None) -> JobInfo:
        """Wait until it is in exactly that state.

        Args:
            state: the state.
            timeout: seconds; 0 asks and returns at once, None waits for ever.

        Raises:
            Timeout: it did not come in time.
            InvalidState: it can't come to that state any more.
        """
        return await self._wait(state.name, timeout)

    async def suspend(self) -> None:
        """Stop its processes: RUNNING to SUSPENDED.

        Raises:
            InvalidState: it is not RUNNING.
            UnsupportedOperation: its backend can't.
        """
        await self._control("suspend", done=lambda state: state is JobState.SUSPENDED)

    async def resume(self) -> None:
        """Let its processes go on: SUSPENDED to RUNNING.

        Raises:
            InvalidState: it is not SUSPENDED.
            UnsupportedOperation: its backend can't.
        """
        await self._control("resume", done=lambda state: state is JobState.RUNNING or state.final)

    async def hold(self) -> None:
        """Keep it from being started: QUEUED to QUEUED_HELD.

        Raises:
            InvalidState: it does not wait, or is held already.
        """
        await self._control("hold", done=lambda state: state in _HELD)

    async def release(self) -> None:
        """Let it be started: QUEUED_HELD to QUEUED.

        Raises:
            InvalidState: it is not held.
        """
        await self._control("release", done=lambda state: state not in _HELD)

    async def terminate(self, grace: float | None = None) -> None:
        """End it with every process that it started; returns when they are gone.

        Args:
            grace: seconds between TERM and KILL, by default 10; 0 kills at once.

        Raises:
            InvalidState: it has ended already.
            CannotEnd: a process outlived the KILL, being in uninterruptible sleep.
        """
        await self._control("terminate", {"grace": grace}, done=lambda state: state.final)

    async def signal(self, signal: int | str, *, leader: bool = False) -> None:
        """Send a signal to all its processes. It is never sent twice.

        Args:
            signal: a number (``signal.SIGUSR1``), or a name such as ``USR1``.
            leader: only to the process that jobd started.

        Raises:
            InvalidState: it has no processes.
            InvalidArgument: there is no such signal.
            DrmCommunication: the daemon was lost before it answered, so the signal may have been sent or not.
        """
        params = {"selection": self._selection, "signal": signal, "leader": leader}
        await self._link.call("signal", params, repeat=False, check=_raise_failure)

    async def reap(self) -> None:
        """Forget it, with its captured output (DRMAA2 reap); every later use of it raises NotFound.

        Raises:
            InvalidState: it has not ended.
        """

        async def gone(error: JobdError) -> bool:
            return isinstance(error, NotFound)

        await self._link.call("reap", {"selection": self._selection}, check=_raise_failure, settled=gone)

    def logs(
        self,
        stream: StreamName = "stdout",
        *,
        follow: bool = False,
        lines: int | None = None,
        attempt: int | None = None,
    ) -> LogStream:
        """What it wrote, as bytes.

        Args:
            stream: ``stdout`` or ``stderr``.
            follow: go on until the job has ended; wait for one that has not started.
            lines: begin that many lines before the end.
            attempt: which start of the job; by default the latest.
        """
        return LogStream(self._link, self.id, stream, follow=follow, lines=lines, attempt=attempt)

    @property
    def _selection(self) -> dict[str, Any]:
        return {"ids": [self.id]}

    async def _wait(self, goal: str, timeout: float | None) -> JobInfo:
        answer = await self._link.wait({"selection": self._selection, "for": goal}, timeout)
        return msgspec.convert(answer["jobs"][0], JobInfo)

    async def _control(
        self, method: str, options: dict[str, Any] | None = None, *, done: Callable[[JobState], bool]
    ) -> None:
        async def settled(error: JobdError) -> bool:
            return isinstance(error, InvalidState) and done(await self.state())

        params = {"selection": self._selection, **(options or {})}
        await self._link.call(method, params, check=_raise_failure, settled=settled)


def _raise_failure(answer: dict[str, Any]) -> None:
    """Control methods answer for many jobs; this one was asked for alone."""
    for row in answer["failed"]:
        raise from_wire(row["error"])


async def wait_any(link: Link, jobs: Sequence[Job], goal: str, timeout: float | None) -> Job:
    """The first of several jobs for which it is so.

    Raises:
        InvalidArgument: no job, or one of another client.
        Timeout: it was so for none in time.
        InvalidState: it can't come for any.
    """
    if not jobs:
        raise InvalidArgument("there is no job to wait for")
    if any(job._link is not link for job in jobs):
        raise InvalidArgument("a job belongs to another client")
    params = {"selection": {"ids": [job.id for job in jobs]}, "for": goal, "any": True}
    reached = {info["job_id"] for info in (await link.wait(params, timeout))["jobs"]}
    return next(job for job in jobs if job.id in reached)
