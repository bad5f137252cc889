"""The client library: DRMAA2's sessions and jobs, asynchronous, under asyncio and trio.

::

    async with jobd.connect() as client:
        job = await client.session.run_job(JobTemplate(remote_command="sleep", args=("1",)))
        info = await job.wait_terminated()
"""

from jobd.client.capability import Capability
from jobd.client.client import Client, connect
from jobd.client.events import JobEvent, Truncated
from jobd.client.job import Job
from jobd.client.session import JobSession

__all__ = ["Capability", "Client", "Job", "JobEvent", "JobSession", "Truncated", "connect"]
