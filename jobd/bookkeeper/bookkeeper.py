"""The loop that turns commands into commits, and commits into what everybody sees."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import structlog

from jobd.backends.base import EndedSeen, Observation, RefusedSeen
from jobd.bookkeeper import transitions
from jobd.bookkeeper.commands import Command, Observed, Pending
from jobd.bookkeeper.eventlog import EventLog
from jobd.bookkeeper.picture import Change, Picture
from jobd.bookkeeper.transaction import Counters, Transaction
from jobd.bookkeeper.waiters import Goal, Waiter, Waiters
from jobd.crashpoint import crash_point
from jobd.model.errors import Internal, JobdError, OutOfResource
from jobd.model.ids import JobId
from jobd.model.job import Job, Tasks
from jobd.scheduler import Scheduler
from jobd.store import Batch, Request, Store

_log = structlog.get_logger(__name__)

_RECENT = 10_000

Starter = Callable[[Sequence[tuple[Job, Tasks]]], None]


class Recent(OrderedDict[Any, Any]):
    """A dictionary that keeps its newest entries."""

    def add(self, key: Any, value: Any) -> None:
        """Put an entry in and drop the oldest beyond the bound."""
        self[key] = value
        if len(self) > _RECENT:
            self.popitem(last=False)


class Bookkeeper:
    """Takes commands, commits them in groups, and publishes what came of them.

    All commands that arrive while a commit is under way form the next group: no timer, one transaction in flight.
    The scheduler is asked within the same group, so that an intent is committed with what made it possible.

    Args:
        store: where it commits to.
        scheduler: which waiting job may start.
        clock: the wall clock, seconds since the epoch.
        shortage: why there is no room on disk for new work, None where there is.
        agent: names who gets the starts of a job's backend, for the intent; None where nobody can take any now.
    """

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        clock: Callable[[], float],
        shortage: Callable[[], Awaitable[str | None]],
        agent: Callable[[Job], str | None],
    ) -> None:
        self.store = store
        self.scheduler = scheduler
        self.picture = Picture()
        self.waiters = Waiters()
        self.recent_requests: Recent = Recent()
        self.on_refused: Callable[[str], None] = lambda reason: None
        self._clock = clock
        self._shortage = shortage
        self._agent = agent
        self._starter: Starter | None = None
        self._inbox: list[Pending] = []
        self._arrived = anyio.Event()
        self._counters = Counters()
        self.events = EventLog(store.events, store.first_event, 0)

    async def load(self) -> None:
        """Read what is active from the store. Before anything else."""
        counters = await self.store.counters()
        self._counters = Counters(counters["job"], counters["event"])
        self.events.last = self._counters.event
        self.picture.load(await self.store.load_active())
        self._rebuild_scheduler()

    def start_with(self, starter: Starter) -> None:
        """From now on jobs are started: recovery is done."""
        self._starter = starter
        self.wake()

    def wake(self) -> None:
        """Ask the scheduler again: slots, a pause or a queue changed."""
        self._arrived.set()

    async def run(self) -> None:
        """Serve until cancelled. A commit that has begun is finished by the store."""
        while True:
            await self._arrived.wait()
            self._arrived = anyio.Event()
            group, self._inbox = self._inbox, []
            await self._serve(group)

    async def ask(self, command: Command) -> Any:
        """Have a command committed; its result.

        Raises:
            JobdError: it was refused, or could not be committed.
        """
        pending = Pending(command)
        self._inbox.append(pending)
        self._arrived.set()
        return await pending.wait()

    async def observe(self, observations: Sequence[Observation]) -> None:
        """Take what a backend saw (jobd.backends.base.Observer)."""
        await self.ask(Observed(observations))

    async def _serve(self, group: list[Pending]) -> None:
        transaction = Transaction(self.picture, self._counters, self._clock())
        await self._check_room()
        accepted = [pending for pending in group if self._staged(pending, transaction)]
        intents = self._plan(transaction, accepted)
        try:
            await self._commit(transaction)
        except OutOfResource as error:
            self._undo(accepted, error)
            self.on_refused(error.message)
        except JobdError as error:
            await self._isolate(accepted, error)
        else:
            self._publish(transaction, accepted, intents)

    async def _check_room(self) -> None:
        """Below the floor of free space nothing new is started; what runs is still followed."""
        if self.scheduler.waiting and not self.scheduler.paused and (short := await self._shortage()):
            self.on_refused(short)

    def _staged(self, pending: Pending, transaction: Transaction) -> bool:
        try:
            pending.result = pending.command.stage(transaction)
        except JobdError as error:
            pending.fail(error)
            return False
        return True

    def _plan(self, transaction: Transaction, accepted: list[Pending]) -> list[tuple[Job, Tasks]]:
        """Tell the scheduler what is staged, and stage the starts that it decides on."""
        for change in transaction.changes:
            self.scheduler.update(*change)
        for pending in accepted:
            if isinstance(pending.command, Observed):
                self._linger(pending.command.observations, transaction)
        for id in transaction.freed:
            self.scheduler.freed(id)
        if self._starter is None:
            return []
        return [intent for id in self.scheduler.starts() if (intent := self._intend(id, transaction))]

    def _linger(self, observations: Sequence[Observation], transaction: Transaction) -> None:
        ended = {change.after.id: change.job for change in transaction.changes if change.after.state.final}
        for seen in observations:
            if isinstance(seen, EndedSeen) and not seen.freed and seen.id in ended:
                self.scheduler.linger(seen.id, ended[seen.id].slots)

    def _intend(self, id: JobId, transaction: Transaction) -> tuple[Job, Tasks] | None:
        entry = transaction.entry(id.job)
        run = transaction.run_at(id)
        if entry is None or run is None:
            return None
        after = transitions.intend(run, self._agent(entry.job))
        transaction.step(entry.job, run, after)
        self.scheduler.update(entry.job, run, after)
        return entry.job, after

    async def _commit(self, transaction: Transaction) -> None:
        if not transaction.empty:
            crash_point("before-commit")
            await self.store.commit(transaction.seal())
            crash_point("after-commit")

    def _publish(self, transaction: Transaction, accepted: list[Pending], intents: Sequence[tuple[Job, Tasks]]) -> None:
        """After the commit, without a pause: memory, waiters, events, answers, starts."""
        transaction.apply()
        self._counters = transaction.counters
        self._remember(transaction.batch)
        for change in transaction.changes:
            self.waiters.notice(change)
        self.events.publish(transaction.events)
        for pending in accepted:
            pending.settle()
            self._report_refusals(pending.command)
        if intents and self._starter is not None:
            self._starter(intents)
        self._log_ends(transaction.changes)

    def _report_refusals(self, command: Command) -> None:
        if isinstance(command, Observed):
            for seen in command.observations:
                if isinstance(seen, RefusedSeen) and seen.reason is not None:
                    self.on_refused(seen.reason)

    def _log_ends(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.after.state.final:
                _log.debug("job ended", job_id=str(change.after.id), state=change.after.state.name)

    def _remember(self, batch: Batch) -> None:
        for request in batch.requests:
            self.recent_requests.add((request.owner_uid, request.request_id), request)

    def _undo(self, accepted: list[Pending], error: JobdError) -> None:
        """The group was rolled back: nobody has seen its numbers, and the scheduler forgets what it was told."""
        self._rebuild_scheduler()
        for pending in accepted:
            pending.fail(error)

    async def _isolate(self, accepted: list[Pending], error: JobdError) -> None:
        """One command in the group can't be committed: each is tried alone, so that the others lose nothing."""
        self._rebuild_scheduler()
        if len(accepted) < 2:
            _log.error("a change could not be committed", error=error.message)
            self._undo(accepted, Internal(f"the change could not be committed: {error.message}"))
            return
        for pending in accepted:
            await self._serve([pending])

    def _rebuild_scheduler(self) -> None:
        self.scheduler.rebuild((entry.job, run) for entry in self.picture for run in entry.runs)

    async def known_request(self, owner_uid: int, request_id: str) -> Request | None:
        """The request that came before under this id, if any."""
        recent: Request | None = self.recent_requests.get((owner_uid, request_id))
        return recent or await self.store.request(owner_uid, request_id)

    async def find(self, id: JobId) -> tuple[Job, list[Tasks]] | None:
        """A job and its runs, active or ended; None if there is none (any more)."""
        entry = self.picture.get(id.job)
        if entry is not None and not entry.job.array:
            return entry.job, list(entry.runs)
        return await self.store.find(id.job)

    async def wait(
        self, ids: Sequence[JobId], goal: Goal, *, any_of: bool, timeout: float | None = None
    ) -> dict[JobId, tuple[Job, Tasks]]:
        """Wait until all the jobs, or any of them, come to a goal; those that did, as they stood then.

        Registered in the same step that looks, so that nothing falls between. Cancellation forgets the waiter.

        ``timeout`` is in seconds, and begins once it is known where they all stand.

        Raises:
            TimeoutError: it did not come in time.
            InvalidState: it can't come any more.
        """
        waiter = Waiter(ids, goal, any_of=any_of)
        self.waiters.add(waiter)
        try:
            absent = [id for id in ids if not self._look(waiter, id)]
            for id in absent:
                await self._look_up(waiter, id)
            return await waiter.result(timeout)
        finally:
            self.waiters.remove(waiter, ids)

    def _look(self, waiter: Waiter, id: JobId) -> bool:
        entry = self.picture.get(id.job)
        for run in self.picture.runs_of(id):
            assert entry is not None
            waiter.notice(entry.job, id, run)
            return True
        return False

    async def _look_up(self, waiter: Waiter, id: JobId) -> None:
        """An id that is not active has ended for good, so there is no race between this look and an event."""
        found = await self.store.find(id.job)
        for run in found[1] if found else ():
            if run.first <= id.task <= run.last and found is not None:
                waiter.notice(found[0], id, run)
