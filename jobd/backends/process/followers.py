"""Jobs without a keeper: theirs is dead, they run on, and the daemon follows each by a pidfd until it ends."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import anyio
import structlog

from jobd.backends.base import ContinuedSeen, EndedSeen, FreedSeen, StartedSeen, StoppedSeen
from jobd.backends.process.attributes import time_limit
from jobd.backends.process.exits import how_it_ended
from jobd.backends.process.keeper.journal import FILE
from jobd.backends.process.keeper.reaping import group_alive
from jobd.backends.process.keeper.tree import Process, catches, descendants, has_token, look, send, stop_harder
from jobd.backends.process.recovery import Found, still_runs
from jobd.backends.process.reports import Reports
from jobd.crashpoint import crash_point
from jobd.model.errors import CannotEnd, InvalidState, JobdError
from jobd.model.job import Job
from jobd.model.status import Unknown

_log = structlog.get_logger(__name__)

GRACE = 10.0
"""Seconds from TERM to KILL where nobody said otherwise."""

_LOOK = 0.05
_POLITE = 0.15
_LOOK_SELDOM = 0.2
_LEFT_ALONE = 2.0
_GIVE_UP = 10.0
_PATIENCE = 5.0
_NOBODY = -1
_UNKNOWN = "Its keeper died, and the kernel told nobody else how it ended."


class Follower:
    """One running job whose keeper, named ``keeper``, is dead.

    Args:
        journal: the dead keeper's folder: causes are written there before the first signal, as the keeper did.
    """

    def __init__(
        self, job: Job, found: Found, token: str, keeper: str, journal: Path, machine: str, reports: Reports
    ) -> None:
        self.keeper = keeper
        self.emptied = anyio.Event()
        self._job = job
        self._found = found
        self._token = token.encode()
        self._journal = journal / FILE
        self._machine = machine
        self._reports = reports
        self._cause = found.cause
        self._descriptor = _NOBODY
        self._ending = 0
        self._unlimited = anyio.CancelScope()
        self._clock = _Running(found.identity.boot)

    @property
    def pid(self) -> int:
        """The leader's."""
        return self._found.identity.pid

    def attach(self) -> bool:
        """Take hold of the process; False where it is gone, or the pid is another's by now."""
        try:
            self._descriptor = os.pidfd_open(self.pid)
        except OSError:
            return False
        if still_runs(self._found.identity):
            return True
        os.close(self._descriptor)
        return False

    async def run(self) -> None:
        """Follow it to its end, report that, and see to what it left."""
        await self._report_executed()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._keep_time_limit)
                if self._cause is not None:
                    tasks.start_soon(self._end_again, self._cause)
                await anyio.wait_readable(self._descriptor)
                await self._report_end()
                self._unlimited.cancel()
                await self._see_to_leftovers()
        finally:
            os.close(self._descriptor)

    async def _report_executed(self) -> None:
        """Before its exec a forked child has the keeper's environment, without the token."""
        if has_token(self.pid, self._token):
            seen = StartedSeen(
                id=self._found.id,
                attempt=self._found.attempt,
                native_id=str(self.pid),
                at=time.time() - self._clock.since_start(),
                machine=self._machine,
                granted_to=self.keeper,
            )
            await self._reports.tell([seen])

    async def _report_end(self) -> None:
        identity = self._found.identity
        outcome, usage = await anyio.to_thread.run_sync(how_it_ended, self.pid, self._descriptor, identity.ticks)
        crash_point("before-record")
        freed = self._leaves or not group_alive(self.pid)
        ended = EndedSeen(
            id=self._found.id,
            attempt=self._found.attempt,
            outcome=outcome,
            at=time.time(),
            native_id=str(self.pid),
            machine=self._machine,
            wallclock_time=self._clock.since_start(),
            usage=usage,
            cause=self._cause,
            annotation=_UNKNOWN if isinstance(outcome, Unknown) else None,
            freed=freed,
        )
        await self._reports.tell([ended])
        if freed:
            self.emptied.set()

    @property
    def _leaves(self) -> bool:
        return bool(self._job.template.leave_children)

    async def _see_to_leftovers(self) -> None:
        """A moment to end by itself, then TERM, grace, KILL, as a keeper does; unless somebody is ending it already."""
        if self._leaves:
            return
        left_until = time.monotonic() + _LEFT_ALONE
        with anyio.move_on_after(_LEFT_ALONE):
            await self._until_emptied()
        left = await anyio.to_thread.run_sync(self.tree)
        if left and not self._ending:
            await anyio.sleep(left_until - time.monotonic())
            await self._end_again(None)
        await self._until_emptied()

    async def _until_emptied(self) -> None:
        """Nothing tells of the end of processes that are nobody's children here: their group is looked at."""
        if self.emptied.is_set():
            return
        while group_alive(self.pid):  # noqa: ASYNC110 (nobody tells of a process group)
            await anyio.sleep(_LOOK_SELDOM)
        await self._reports.tell([FreedSeen(self._found.id, self._found.attempt)])
        self.emptied.set()

    async def _keep_time_limit(self) -> None:
        limit = time_limit(self._job.template)
        if limit is None:
            return
        with self._unlimited:
            await self._clock.reaches(limit)
        if not self._unlimited.cancelled_caught:
            await anyio.to_thread.run_sync(self._write_cause, "time-limit")
            await self._end_again("time-limit")

    async def _end_again(self, cause: str | None) -> None:
        """End it where nobody waits for the result: by a limit, by what was under way before, or after its end."""
        try:
            await self.terminate(cause, GRACE)
        except JobdError as error:
            _log.warning("a job could not be ended", job_id=str(self._found.id), error=error.message)

    def _write_cause(self, cause: str) -> None:
        """Why it is about to be ended, for the next daemon. On a line of its own: the last one may be torn."""
        record = {"k": "cause", "t": self._token.decode(), "cause": cause}
        try:
            with self._journal.open("ab") as file:
                file.write(b"\n" + json.dumps(record).encode() + b"\n")
        except OSError as error:
            _log.warning("a cause could not be journalled", job_id=str(self._found.id), error=str(error))

    def tree(self) -> list[Process]:
        """Its processes, the leader first: by descent, session and token. Blocking.

        They may have fallen to any parent, so all processes are looked at.
        """
        found: dict[int, Process] = {}
        if still_runs(self._found.identity):
            _add(found, [leader for leader in [look(self.pid)] if leader])
            _add(found, descendants(self.pid))
        for process in _everybody():
            if process.pid not in found and (process.session == self.pid or has_token(process.pid, self._token)):
                _add(found, [process, *descendants(process.pid)])
        return [process for process in found.values() if process.state != "Z"]

    async def terminate(self, cause: str | None, grace: float) -> None:
        """End the tree: TERM, CONT, grace, KILL.

        Raises:
            CannotEnd: processes outlived SIGKILL.
        """
        self._cause = self._cause or cause
        self._ending += 1
        try:
            if grace > 0 and await self._until_gone(grace, signal.SIGTERM, signal.SIGCONT):
                return
            if not await self._until_gone(_GIVE_UP, signal.SIGKILL, again=True):
                pids = ", ".join(str(process.pid) for process in await anyio.to_thread.run_sync(self.tree))
                raise CannotEnd(f"processes outlived SIGKILL: {pids} (uninterruptible sleep)")
        finally:
            self._ending -= 1

    async def _until_gone(self, patience: float, *numbers: int, again: bool = False) -> bool:
        """Signal the tree and wait for its end."""
        until = time.monotonic() + patience
        pause = _LOOK
        while found := await anyio.to_thread.run_sync(self.tree):
            if pause == _LOOK or again:
                _signal(found, numbers)
            if time.monotonic() >= until:
                return False
            await anyio.sleep(pause)
            pause = min(_LOOK_SELDOM, pause * 1.2)
        return True

    async def signal(self, number: int, *, leader_only: bool) -> None:
        """Send a signal to the tree, or to its leader."""
        found = await anyio.to_thread.run_sync(self.tree)
        _signal([process for process in found if not leader_only or process.pid == self.pid], [number])

    async def suspend(self) -> None:
        """Stop the tree and report it.

        Raises:
            InvalidState: it does not stop.
        """
        for process in await anyio.to_thread.run_sync(self.tree):
            send(process, signal.SIGTSTP if catches(process.pid, signal.SIGTSTP) else signal.SIGSTOP, _NOBODY)
        await anyio.sleep(_POLITE)
        await self._until_stopped()
        self._clock.stop()
        await self._reports.tell([StoppedSeen(self._found.id, self._found.attempt)])

    async def _until_stopped(self) -> None:
        until = time.monotonic() + _PATIENCE
        while running := await anyio.to_thread.run_sync(self._stop_harder):
            if time.monotonic() > until:
                raise InvalidState(f"process {running[0].pid} does not stop", jobs=[str(self._found.id)])
            await anyio.sleep(_LOOK)

    def _stop_harder(self) -> list[Process]:
        return stop_harder(self.tree(), _NOBODY)

    async def resume(self) -> None:
        """Let the tree go on and report it."""
        _signal(await anyio.to_thread.run_sync(self.tree), [signal.SIGCONT])
        self._clock.go_on()
        await self._reports.tell([ContinuedSeen(self._found.id, self._found.attempt)])


class _Running:
    """How long a job has run: what CLOCK_BOOTTIME says of the time before it was followed, then CLOCK_MONOTONIC.

    How long it was suspended before it was followed is not known: that counts as running.
    """

    def __init__(self, started: float) -> None:
        self._started = started
        self._ran = time.clock_gettime(time.CLOCK_BOOTTIME) - started
        self._running_since: float | None = time.monotonic()
        self._changed = anyio.Event()

    def since_start(self) -> float:
        """Seconds since its start, stopped or not."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self._started

    def stop(self) -> None:
        """It was stopped."""
        self._ran = self._now()
        self._running_since = None
        self._wake()

    def go_on(self) -> None:
        """It runs again."""
        self._ran = self._now()
        self._running_since = time.monotonic()
        self._wake()

    async def reaches(self, limit: float) -> None:
        """Wait until it has run for so many seconds."""
        while (left := limit - self._now()) > 0:
            with anyio.move_on_after(left if self._running_since is not None else None):
                await self._changed.wait()

    def _now(self) -> float:
        return self._ran if self._running_since is None else self._ran + time.monotonic() - self._running_since

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


def _signal(found: Iterable[Process], numbers: Iterable[int]) -> None:
    for number in numbers:
        for process in found:
            send(process, number, _NOBODY)


def _add(found: dict[int, Process], more: Iterable[Process]) -> None:
    found.update({process.pid: process for process in more})


def _everybody() -> Iterator[Process]:
    for name in os.listdir("/proc"):
        if name.isdigit() and (seen := look(int(name))) is not None:
            yield seen
