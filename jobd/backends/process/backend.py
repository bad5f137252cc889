"""OS processes as a backend: the daemon's side, over the keepers."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Sequence
from functools import partial

import anyio
from anyio.abc import TaskStatus

from jobd.backends.base import Attempt, Capabilities, Health, Sink
from jobd.backends.process import attributes
from jobd.backends.process.aftermath import Aftermath, granted_to
from jobd.backends.process.files import Files, attempt_of, files_of, job_folder
from jobd.backends.process.followers import Follower
from jobd.backends.process.following import End, drain, follow_output
from jobd.backends.process.granting import Accounts, Granting
from jobd.backends.process.keepers import Keepers
from jobd.backends.process.link import KeeperGone, KeptJob, Link
from jobd.backends.process.orphans import Orphans, become_subreaper
from jobd.backends.process.output import CapturedFile, UserFile
from jobd.backends.process.reports import Reports
from jobd.backends.registry import Surroundings
from jobd.config import BackendSection
from jobd.model.errors import DrmCommunication, InvalidState, NotFound
from jobd.model.ids import JobId
from jobd.model.job import Job, Owner, Tasks
from jobd.model.template import JobTemplate, Text, to_text
from jobd.model.tokens import make_token

CAPABILITIES = Capabilities(
    operations=frozenset({"suspend", "resume", "hold", "release", "terminate", "signal", "reap"}),
    attributes=attributes.HONOURED,
)


class ProcessBackend:
    """Jobs as processes of this machine."""

    kind = "process"
    capabilities = CAPABILITIES

    def __init__(self, name: str, section: BackendSection, surroundings: Surroundings) -> None:
        around = surroundings
        self.name = name
        self._around = around
        self._readers: set[int] = set()
        self._accounts = Accounts()
        folder = around.state_dir / "keepers"
        reports = Reports(around.observer)
        self._aftermath = Aftermath(
            folder,
            around.store_id,
            around.machine,
            reports,
            self._active,
            self._waiting,
        )
        self._keepers = Keepers(folder, around.generation, around.machine, reports, self._active, self._aftermath)
        self._granting = Granting(around.state_dir, around.environments, self._accounts, reports, self._keepers.ready)
        self._orphans = Orphans(self._known_children, self._keepers.quiet)
        self._keepers.buried = self._orphans.reap

    def _active(self) -> Iterable[tuple[Job, Tasks]]:
        return self._around.jobs.active(self.name)

    def _waiting(self, id: JobId) -> bool:
        return self._granting.waiting(id)

    def _known_children(self) -> set[int]:
        followed = {follower.pid for follower in self._aftermath.followers.values()}
        return self._keepers.pids | self._readers | followed

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Serve until cancelled."""
        become_subreaper()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._orphans.run)
            tasks.start_soon(self._granting.run)
            await tasks.start(self._aftermath.run)
            await tasks.start(self._keepers.run)
            task_status.started()

    def check(self, template: JobTemplate, owner: Owner) -> None:
        """Refuse what a process can't honour (``attributes``)."""
        attributes.check(template, self._around.machine)

    def health(self) -> Health:
        """Well, unless a keeper does not answer, or none could be started the last time."""
        error = self._granting.trouble or self._silence()
        return Health(ok=error is None, last_error=error)

    def _silence(self) -> str | None:
        silent = ", ".join(sorted(self._keepers.unanswering))
        return f"keeper {silent} does not answer" if silent else None

    def slot_agent(self) -> str:
        """The keeper for new jobs; it is started with the first of them."""
        return self._keepers.current

    def agents(self) -> Collection[int]:
        """The keepers."""
        return {link.pid for link in self._keepers.links.values() if link.alive and link.pid}

    async def recover(self) -> None:
        """Ask the keepers and their journals."""
        await self._keepers.recover()

    def start(self, attempts: Sequence[Attempt]) -> None:
        """Hand attempts to the keeper."""
        self._granting.add(attempts)

    async def set_capacity(self, slots: int | None) -> None:
        """How many slots the keepers may fill."""
        await self._keepers.set_capacity(slots)

    async def revoke(self, ids: Sequence[JobId]) -> Sequence[JobId]:
        """Take starts back, from the preparation or from the keeper.

        Raises:
            DrmCommunication: the keeper that one may lie with does not answer.
        """
        back = self._granting.take_back(ids)
        tokens = {self._token(id): id for id in ids if id not in back}
        by_link: dict[Link, list[str]] = {}
        for token, id in tokens.items():
            link = await self._link(token)
            if link is not None:
                by_link.setdefault(link, []).append(token)
            elif (silence := self._silence()) and self._granted(id):
                raise DrmCommunication(f"the start of job {id} can't be taken back: {silence}", jobs=[str(id)])
        for link, mine in by_link.items():
            back += [tokens[token] for token in await link.revoke(mine)]
        return back

    def _granted(self, id: JobId) -> bool:
        return any(tasks.id == id and granted_to(tasks) in self._keepers.unanswering for _, tasks in self._active())

    async def suspend(self, id: JobId) -> None:
        """Stop the tree."""
        await (await self._holder(id)).suspend()

    async def resume(self, id: JobId) -> None:
        """Let the tree go on."""
        await (await self._holder(id)).resume()

    async def signal(self, id: JobId, number: int, *, leader_only: bool) -> None:
        """Signal the tree or its leader."""
        await (await self._holder(id)).signal(number, leader_only=leader_only)

    async def terminate(self, id: JobId, cause: str, grace: float) -> None:
        """End the tree; by whoever has it when its keeper dies meanwhile."""
        while self._around.jobs.attempt(id) is not None:
            holder = await self._holder(id)
            try:
                await holder.terminate(cause, grace)
            except KeeperGone:
                continue
            return

    async def _holder(self, id: JobId) -> KeptJob | Follower:
        """Who has a job.

        Raises:
            InvalidState: nobody: it has just ended, or its keeper does not answer.
        """
        token = self._token(id)
        link = await self._link(token)
        if link is not None:
            return KeptJob(link, token)
        follower = self._aftermath.followers.get(token)
        if follower is None:
            raise InvalidState(f"job {id} can't be reached: {self._silence() or 'it has just ended'}", jobs=[str(id)])
        return follower

    async def _link(self, token: str) -> Link | None:
        """The keeper that has a job. While one is lost it is not known who has its jobs."""
        while (link := self._keepers.link_of(token)) is not None and not link.settled.is_set():
            await link.settled.wait()
        return link

    async def tree_gone(self, job: Job, tasks: Tasks) -> None:
        """End what an ended job left. Every keeper is asked: one that has forgotten it has nothing left of it."""
        token = make_token(self._around.store_id, tasks.id, tasks.attempt)
        for link in list(self._keepers.links.values()):
            if link.settled.is_set() and link.alive:
                try:
                    await KeptJob(link, token).terminate(None, 0)
                except KeeperGone:
                    continue
        follower = self._aftermath.followers.get(token)
        if follower is not None:
            await follower.terminate(None, 0)

    async def forget(self, ids: Sequence[JobId]) -> None:
        """Delete captured output."""
        for id in ids:
            remove = partial(shutil.rmtree, job_folder(self._around.state_dir, id.job), ignore_errors=True)
            await anyio.to_thread.run_sync(remove)

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
        self,
        job: Job,
        tasks: Tasks,
        stream: str,
        attempt: int | None,
        offset: int,
        sink: Sink,
        *,
        follow: bool,
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
        if target is None or target.path == b"/dev/null":
            return None
        if target.captured:
            return CapturedFile(target.path)
        local = await self._granting.is_local_file(target.path)
        return UserFile(target.path, await self._accounts.find(job.owner), self._readers, local=local)

    async def _files(self, job: Job, tasks: Tasks, attempt: int | None) -> Files:
        account = await self._accounts.find(job.owner)
        return files_of(self._around.state_dir, job, tasks.first, attempt_of(tasks, attempt), account)

    def _token(self, id: JobId) -> str:
        return make_token(self._around.store_id, id, self._around.jobs.attempt(id) or 0)
