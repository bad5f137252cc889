"""OS processes as a backend: the daemon's side, over the keepers."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence

import anyio
from anyio.abc import TaskStatus

from jobd.backends.base import Attempt, Capabilities, Health, Sink
from jobd.backends.process import attributes
from jobd.backends.process.files import Files, attempt_of, files_of, job_folder
from jobd.backends.process.following import End, drain, follow_output
from jobd.backends.process.granting import Granting
from jobd.backends.process.keepers import Keepers
from jobd.backends.process.orphans import Orphans, become_subreaper
from jobd.backends.process.output import CapturedFile, UserFile
from jobd.model.tokens import make_token
from jobd.backends.registry import Surroundings
from jobd.config import BackendSection
from jobd.model.errors import InvalidState, NotFound
from jobd.model.ids import JobId
from jobd.model.job import Job, Owner, Tasks
from jobd.model.template import JobTemplate, Text, to_text

CAPABILITIES = Capabilities(
    operations=frozenset({"suspend", "resume", "hold", "release", "terminate", "signal", "reap"}),
    attributes=attributes.HONOURED,
)


class ProcessBackend:
    """Jobs as processes of this machine."""

    kind = "process"
    capabilities = CAPABILITIES

    def __init__(self, name: str, section: BackendSection, surroundings: Surroundings) -> None:
        self.name = name
        self._around = surroundings
        self._readers: set[int] = set()
        self._keepers = Keepers(
            surroundings.state_dir / "keepers",
            surroundings.store_id,
            surroundings.generation,
            surroundings.machine,
            surroundings.observer,
            self._active,
        )
        self._granting = Granting(surroundings.state_dir, surroundings.environments, self._keepers.grant)
        self._orphans = Orphans(lambda: self._keepers.pids | self._readers)

    def _active(self) -> Iterable[tuple[Job, Tasks]]:
        return self._around.jobs.active(self.name)

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Serve until cancelled."""
        become_subreaper()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._orphans.run)
            tasks.start_soon(self._granting.run)
            await tasks.start(self._keepers.run)
            task_status.started()

    def check(self, template: JobTemplate, owner: Owner) -> None:
        """Refuse what a process can't honour (``attributes``)."""
        attributes.check(template, self._around.machine)

    def health(self) -> Health:
        """Well, unless a keeper does not answer."""
        silent = ", ".join(sorted(self._keepers.unanswering))
        return Health(ok=not silent, last_error=f"keeper {silent} does not answer" if silent else None)

    def slot_agent(self) -> str:
        """The keeper for new jobs; it is started with the first of them."""
        return self._keepers.current

    async def recover(self) -> None:
        """Ask the keepers and their journals."""
        await self._keepers.recover()

    def start(self, attempts: Sequence[Attempt]) -> None:
        """Hand attempts to the keeper."""
        self._granting.add(attempts)

    async def set_capacity(self, slots: int | None) -> None:
        """How many slots the keepers may fill."""
        self._keepers.capacity = slots
        await self._keepers.share_capacity()

    async def revoke(self, ids: Sequence[JobId]) -> Sequence[JobId]:
        """Take starts back, from the preparation or from the keeper."""
        back = self._granting.take_back(ids)
        tokens = {self._token(id): id for id in ids if id not in back}
        return back + [tokens[token] for token in await self._keepers.revoke(list(tokens))]

    async def suspend(self, id: JobId) -> None:
        """Stop the tree."""
        token = self._token(id)
        link, follower = self._keepers.link_of(token), self._keepers.followers.get(token)
        if link is not None:
            await link.ask(op="suspend", t=token)
        elif follower is not None:
            await follower.suspend()
        else:
            raise self._nowhere(id)

    async def resume(self, id: JobId) -> None:
        """Let the tree go on."""
        token = self._token(id)
        link, follower = self._keepers.link_of(token), self._keepers.followers.get(token)
        if link is not None:
            await link.ask(op="resume", t=token)
        elif follower is not None:
            await follower.resume()
        else:
            raise self._nowhere(id)

    async def terminate(self, id: JobId, cause: str, grace: float) -> None:
        """End the tree."""
        token = self._token(id)
        link, follower = self._keepers.link_of(token), self._keepers.followers.get(token)
        if link is not None:
            await link.ask(op="end", t=token, cause=cause, grace=grace)
        elif follower is not None:
            await follower.terminate(cause, grace)
        elif self._around.jobs.attempt(id) is not None:
            raise self._nowhere(id)

    async def signal(self, id: JobId, number: int, *, leader_only: bool) -> None:
        """Signal the tree or its leader."""
        token = self._token(id)
        link, follower = self._keepers.link_of(token), self._keepers.followers.get(token)
        if link is not None:
            await link.ask(op="signal", t=token, sig=number, leader=leader_only)
        elif follower is not None:
            follower.signal_all(number, leader_only=leader_only)
        else:
            raise self._nowhere(id)

    async def tree_gone(self, job: Job, tasks: Tasks) -> None:
        """End what an ended job left. Every keeper is asked: one that has forgotten it has nothing left of it."""
        token = make_token(self._around.store_id, tasks.id, tasks.attempt)
        for link in list(self._keepers.links.values()):
            await link.ask(op="end", t=token, cause=None, grace=0)

    async def forget(self, ids: Sequence[JobId]) -> None:
        """Delete captured output."""
        for id in ids:
            folder = job_folder(self._around.state_dir, id.job)
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))

    async def files(self, job: Job, tasks: Tasks) -> dict[str, Text | None]:
        """The paths of the last attempt."""
        found = await self._files(job, tasks, None)
        return {
            "stdin": to_text(found.stdin),
            "stdout": to_text(found.stdout.path),
            "stderr": None if found.stderr is None else to_text(found.stderr.path),
        }

    async def tail_offset(self, job: Job, tasks: Tasks, stream: str, attempt: int | None, lines: int) -> int:
        """Where the last lines of an output begin."""
        source = await self._source(job, tasks, stream, attempt)
        return 0 if source is None else await source.tail(lines)

    async def copy_output(
        self, job: Job, tasks: Tasks, stream: str, attempt: int | None, offset: int, sink: Sink, *, follow: bool
    ) -> None:
        """The bytes of an output, from an offset."""
        source = await self._source(job, tasks, stream, attempt)
        if source is None:
            return
        if follow:
            token = make_token(self._around.store_id, tasks.id, attempt_of(tasks, attempt))
            end = End(tasks.id, token, self._around.jobs, self._keepers.emptied)
            await follow_output(source, offset, sink, end, self._around.inotify)
        else:
            await drain(source, offset, sink)

    async def _source(self, job: Job, tasks: Tasks, stream: str, attempt: int | None) -> CapturedFile | UserFile | None:
        if attempt is not None and not 1 <= attempt <= max(1, tasks.attempt):
            raise NotFound(f"job {tasks.id} has no attempt {attempt}", jobs=[str(tasks.id)])
        found = await self._files(job, tasks, attempt)
        target = found.stdout if stream == "stdout" else found.stderr
        if target is None:
            return None
        if target.captured:
            return CapturedFile(target.path)
        local = await self._granting.is_local_file(target.path)
        return UserFile(target.path, await self._granting.account(job.owner), self._readers, local=local)

    async def _files(self, job: Job, tasks: Tasks, attempt: int | None) -> Files:
        account = await self._granting.account(job.owner)
        return files_of(self._around.state_dir, job, tasks.first, attempt_of(tasks, attempt), account)

    def _token(self, id: JobId) -> str:
        return make_token(self._around.store_id, id, self._around.jobs.attempt(id) or 0)

    def _nowhere(self, id: JobId) -> InvalidState:
        silent = ", ".join(sorted(self._keepers.unanswering))
        why = f"keeper {silent} does not answer" if silent else "it has just ended"
        return InvalidState(f"job {id} can't be reached: {why}", jobs=[str(id)])
