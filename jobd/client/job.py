"""A job's handle."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from jobd.client.channel import Lost
from jobd.model.errors import from_wire
from jobd.model.info import JobInfo
from jobd.model.states import JobState
from jobd.model.template import JobTemplate, parse_template
from jobd.model.text import unwrap
from jobd.protocol import messages

if TYPE_CHECKING:
    from jobd.client.session import JobSession


class Job:
    """One job of a session (DRMAA2 Job). Two handles of the same job are equal.

    After ``reap`` every call raises NotFound, which is an InvalidArgument.
    """

    def __init__(self, session: JobSession, id: str) -> None:
        self._session = session
        self.id = id

    def __repr__(self) -> str:
        return f"Job({self.id})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def session_name(self) -> str:
        """The session that it belongs to."""
        return self._session.name

    async def info(self) -> JobInfo:
        """What is known of it now (DRMAA2 getInfo)."""
        rows = (await self._request("list", {"selection": self._selection}))["jobs"]
        return msgspec.convert(rows[0], JobInfo)

    async def state(self) -> JobState:
        """The state that it is in."""
        return JobState[str((await self.info()).state)]

    async def job_template(self) -> JobTemplate:
        """The template that it was submitted with; of its environment only the names are told."""
        raw = (await self._request("show", {"selection": self._selection}))["jobs"][0]["template"]
        names = raw.pop("job_environment", None)
        template = parse_template(raw)
        if names is None:
            return template
        return msgspec.structs.replace(template, job_environment=dict.fromkeys(names, ""))

    async def wait_started(self, timeout: float | None = None) -> JobInfo:
        """Wait until an attempt has started, or is past it (DRMAA2 waitStarted).

        Args:
            timeout: seconds; 0 does not wait, None waits for ever.

        Raises:
            Timeout: not in that time.
            InvalidState: it ended without having started.
        """
        return await self.wait_for("started", timeout)

    async def wait_terminated(self, timeout: float | None = None) -> JobInfo:
        """Wait until it is DONE or FAILED (DRMAA2 waitTerminated).

        Args:
            timeout: seconds; 0 does not wait, None waits for ever.

        Raises:
            Timeout: not in that time.
        """
        return await self.wait_for("terminated", timeout)

    async def wait_for(self, goal: str | JobState, timeout: float | None = None) -> JobInfo:
        """Wait for ``started``, ``terminated`` or a state.

        Raises:
            Timeout: not in that time.
            InvalidState: it can't come any more.
        """
        return (await self._session.wait([self], goal, timeout, any_of=False))[0]

    async def suspend(self) -> None:
        """Stop its processes; returns once they are seen stopped. Raises InvalidState unless it is RUNNING."""
        await self._control("suspend")

    async def resume(self) -> None:
        """Let its processes go on. Raises InvalidState unless it is SUSPENDED."""
        await self._control("resume")

    async def hold(self) -> None:
        """Keep it from starting. Raises InvalidState unless it is QUEUED or REQUEUED."""
        await self._control("hold")

    async def release(self) -> None:
        """Let it start. Raises InvalidState unless it is held."""
        await self._control("release")

    async def terminate(self, grace: float | None = None) -> None:
        """End it with all its processes; returns when they are gone.

        Args:
            grace: seconds between TERM and KILL, 10 by default; 0 kills at once.

        Raises:
            InvalidState: it has ended.
            CannotEnd: processes outlived the KILL.
        """
        await self._control("terminate", grace=grace)

    async def signal(self, signal: str | int, *, leader: bool = False) -> None:
        """Send a signal to all its processes, or to the leader. Raises InvalidState unless it runs."""
        await self._control("signal", signal=signal, leader=leader)

    async def reap(self) -> None:
        """Have it forgotten, and its captured output (DRMAA2 reap). Raises InvalidState unless it has ended."""
        await self._control("reap")

    async def logs(self, stream: str = "stdout", *, follow: bool = False) -> AsyncIterator[bytes]:
        """The bytes of its ``stdout`` or ``stderr``; ``follow``: on until it ends, through any restart of the daemon."""
        offset = 0
        client = self._session.client
        while True:
            channel = await client.open_channel()
            try:
                params = {"job": self.id, "streams": [stream], "follow": follow, "offsets": {stream: offset}}
                await channel.send("logs", params)
                while True:
                    message = await channel.receive()
                    if message.get("method") == "output":
                        data = unwrap(message["params"]["data"])
                        offset = message["params"]["offset"] + len(data)
                        yield data
                    elif message.get("method") == "output_end":
                        if message["params"].get("error"):
                            raise from_wire(message["params"]["error"])
                        return
                    elif "error" in message:
                        messages.outcome(message)
            except Lost:
                continue
            finally:
                with anyio.CancelScope(shield=True):
                    await channel.aclose()

    @property
    def _selection(self) -> dict[str, Any]:
        return {"ids": [self.id]}

    async def _request(self, method: str, params: dict[str, Any]) -> Any:
        return await self._session.request(method, params)

    async def _control(self, method: str, **params: Any) -> None:
        result = await self._request(method, {"selection": self._selection, **params})
        for row in result["failed"]:
            raise from_wire(row["error"])
