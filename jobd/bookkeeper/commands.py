"""What can be asked of the bookkeeper. Each command stages itself into a transaction, or is refused alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import anyio
import msgspec

from jobd.backends.base import Observation
from jobd.bookkeeper import transitions
from jobd.bookkeeper.transaction import Transaction
from jobd.model.errors import InvalidArgument, InvalidState
from jobd.model.ids import JobId
from jobd.model.job import Job, Owner, Tasks
from jobd.model.states import JobState
from jobd.model.status import Waiting
from jobd.model.template import JobTemplate
from jobd.store import Request, Session


class Command(Protocol):
    """One request to the bookkeeper."""

    def stage(self, transaction: Transaction) -> Any:
        """Put its steps into the transaction and return its result.

        Raises:
            JobdError: it is refused; then it has staged nothing.
        """


class Pending:
    """A command that waits for its commit, and the one who waits for its result."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.result: Any = None
        self.error: Exception | None = None
        self._done = anyio.Event()

    def settle(self) -> None:
        """Wake the one who waits."""
        self._done.set()

    def fail(self, error: Exception) -> None:
        """Wake the one who waits with an error."""
        self.error = error
        self._done.set()

    async def wait(self) -> Any:
        """The result, once committed.

        Raises:
            JobdError: it was refused or could not be committed.
        """
        await self._done.wait()
        if self.error is not None:
            raise self.error
        return self.result


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to submit, checked, with everything but its id."""

    template: JobTemplate
    session: str
    backend: str
    queue: str
    environment: tuple[str, bytes] | None = None
    """The digest and the content of what it inherits."""
    retry_of: str | None = None


class Submit(msgspec.Struct, frozen=True, kw_only=True):
    """New jobs, all or none, with consecutive ids; the same request id again gives the same jobs."""

    owner: Owner
    machine: str
    jobs: Sequence[NewJob]
    request_id: str | None
    digest: bytes
    recent_requests: dict[tuple[int, str], Request]

    def stage(self, transaction: Transaction) -> range:
        """The ids."""
        known = self._known_request(transaction)
        if known is not None:
            return known
        first = transaction.counters.job + 1
        for number, new in enumerate(self.jobs, first):
            transaction.submit(*self._job(number, new, transaction.now))
            if new.environment is not None:
                transaction.batch.environments[new.environment[0]] = new.environment[1]
        last = first + len(self.jobs) - 1
        transaction.counters.job = last
        if self.request_id is not None:
            transaction.batch.requests.append(
                Request(self.owner.uid, self.request_id, self.digest, first, last, transaction.now)
            )
        return range(first, last + 1)

    def _known_request(self, transaction: Transaction) -> range | None:
        """Looks among those of this very group, too: two connections may bring the same request at once."""
        if self.request_id is None:
            return None
        key = (self.owner.uid, self.request_id)
        staged = {(request.owner_uid, request.request_id): request for request in transaction.batch.requests}
        request = staged.get(key) or self.recent_requests.get(key)
        return None if request is None else same_request(request, self.digest)

    def _job(self, number: int, new: NewJob, now: float) -> tuple[Job, Tasks]:
        job = Job(
            id=number,
            owner=self.owner,
            session=new.session,
            backend=new.backend,
            queue=new.queue,
            template=new.template,
            environment=new.environment[0] if new.environment else None,
            submission_time=now,
            submission_machine=self.machine,
            retry_of=new.retry_of,
        )
        state = JobState.QUEUED_HELD if new.template.submit_as_hold else JobState.QUEUED
        array = new.template.array
        first, last = (array.begin, array.end) if array else (0, 0)
        return job, Tasks(job=number, first=first, last=last, status=Waiting(state))


def same_request(request: Request, digest: bytes) -> range:
    """The jobs of a request that came before.

    Raises:
        InvalidArgument: it asked for something else under the same id.
    """
    if request.digest != digest:
        raise InvalidArgument(
            f"request id {request.request_id!r} came before with another template",
            hint="use a new request id for a new job",
            jobs=[str(request.first)],
        )
    return range(request.first, request.last + 1)


class Observed(msgspec.Struct, frozen=True):
    """What a backend saw."""

    observations: Sequence[Observation]

    def stage(self, transaction: Transaction) -> None:
        """Every observation that says something new."""
        transaction.observe(self.observations)


class ChangeTasks(msgspec.Struct, frozen=True):
    """A request about one task or job: ``change`` makes the next status of it, or refuses."""

    id: JobId
    change: Callable[[Tasks, float], Tasks]

    def stage(self, transaction: Transaction) -> None:
        """The step."""
        entry = transaction.entry(self.id.job)
        run = transaction.run_at(self.id)
        if entry is None or run is None:
            raise InvalidState(f"job {self.id} has ended", jobs=[str(self.id)])
        transaction.step(entry.job, run, self.change(run, transaction.now))


class WriteCause(msgspec.Struct, frozen=True):
    """Why a job is about to be ended, before its first signal."""

    id: JobId
    cause: str

    def stage(self, transaction: Transaction) -> None:
        """The cause, if the job has not ended and has none."""
        entry = transaction.entry(self.id.job)
        run = transaction.run_at(self.id)
        if entry is None or run is None or transitions.intended(run):
            raise InvalidState(f"job {self.id} is not running", jobs=[str(self.id)])
        transaction.write_cause(entry.job, run, self.cause)


class Reap(msgspec.Struct, frozen=True):
    """Forget finished jobs."""

    jobs: Sequence[int]

    def stage(self, transaction: Transaction) -> None:
        """The deletion."""
        active = [str(job) for job in self.jobs if transaction.entry(job) is not None]
        if active:
            raise InvalidState(f"job {', '.join(active)} has not ended", jobs=active)
        transaction.batch.reaped.extend(self.jobs)


class CreateSession(msgspec.Struct, frozen=True):
    """A new job session."""

    session: Session

    def stage(self, transaction: Transaction) -> None:
        """The row."""
        transaction.batch.sessions_created.append(self.session)


class DestroySession(msgspec.Struct, frozen=True):
    """A job session to remove; its jobs stay."""

    owner_uid: int
    name: str

    def stage(self, transaction: Transaction) -> None:
        """The deletion."""
        transaction.batch.sessions_destroyed.append((self.owner_uid, self.name))
