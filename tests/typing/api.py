"""The client library as a program uses it: mypy checks the types, and a test runs it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import assert_type

import anyio

import jobd
from jobd import Capability, Client, Event, Job, JobInfo, JobSession, JobState, JobTemplate, Truncated
from jobd.client import DaemonStatus, Version
from jobd.model.errors import InvalidState, JobdError, Timeout


async def checksums(client: Client, files: list[Path]) -> dict[Path, str]:
    """One job a file: submitted together, gathered as they end."""
    session = await client.create_job_session(contact="checksums")
    assert_type(session, JobSession)
    jobs = await session.run_jobs([{"remote_command": "sha256sum", "args": [file]} for file in files])
    assert_type(jobs, list[Job])
    found: dict[Path, str] = {}
    waiting = dict(zip(jobs, files, strict=True))
    while waiting:
        job = await session.wait_any_terminated(list(waiting), timeout=60)
        output = b"".join([piece async for piece in job.logs()])
        found[waiting.pop(job)] = output.split()[0].decode()
        await job.reap()
    await session.close()
    await client.destroy_job_session(session.name)
    return found


async def control(client: Client) -> JobInfo:
    """Everything that can be done with one job."""
    template = JobTemplate(remote_command="sleep", args=("60",), time_limit=120, labels={"purpose": "example"})
    job = await client.session.run_job(template, request_id=os.urandom(8).hex())
    assert_type(await job.wait_started(timeout=10), JobInfo)
    try:
        await job.wait_terminated(timeout=0)
    except Timeout:
        assert_type(await job.state(), JobState)
    await job.suspend()
    await job.wait_for(JobState.SUSPENDED)
    await job.resume()
    try:
        await job.hold()
    except InvalidState as error:
        assert_type(error.message, str)
    await job.signal(signal.SIGUSR1)
    await job.wait_terminated()
    assert_type(await job.job_template(), JobTemplate)
    return await job.info()


async def history(client: Client, job: Job) -> list[str]:
    """The states that a job went through."""
    states = []
    async for item in client.events(since=0, job=job, follow=False):
        assert_type(item, Event | Truncated)
        if isinstance(item, Event):
            states.append(item.after.name)
    return states


async def main(socket: str | os.PathLike[str] | None, files: list[Path]) -> dict[Path, str]:
    """Connect and do all that."""
    async with jobd.connect(socket) as client:
        assert_type(client, Client)
        assert_type(await client.status(), DaemonStatus)
        assert_type(client.drms_version, Version)
        assert_type(await client.supports(Capability.JT_EMAIL), bool)
        info = await control(client)
        assert_type(info.exit_status, int | None)
        [job] = await client.session.get_jobs(JobInfo(job_id=info.job_id))
        assert await history(client, job) == ["QUEUED", "RUNNING", "SUSPENDED", "RUNNING", "FAILED"]
        return await checksums(client, files)


if __name__ == "__main__":
    try:
        sums = anyio.run(main, None, [Path(name) for name in sys.argv[1:]])
    except JobdError as error:
        sys.exit(f"{error.message}; {error.hint}")
    for path, digest in sums.items():
        print(f"{digest}  {path}")
