"""The client library, for asyncio and trio: sessions, jobs, waiting, output and events over one daemon's socket.

    async with jobd.connect() as client:
        job = await client.session.run_job(JobTemplate(remote_command="/bin/date"))
        info = await job.wait_terminated()
        print(info.state, info.exit_status)

docs/client.md has more. Every failure is a ``jobd.model.errors.JobdError``.
"""

from jobd.client.capability import Capability
from jobd.client.client import BackendStatus, Client, DaemonStatus, Version, connect
from jobd.client.events import Event, EventStream, Truncated
from jobd.client.job import Job
from jobd.client.logs import LogStream
from jobd.client.session import JobSession

__all__ = [
    "BackendStatus",
    "Capability",
    "Client",
    "DaemonStatus",
    "Event",
    "EventStream",
    "Job",
    "JobSession",
    "LogStream",
    "Truncated",
    "Version",
    "connect",
]
