"""Grants become processes: the head of the queue as soon as its slots are free."""

from __future__ import annotations

import errno
import os
import select
import signal
import time

from jobd.backends.process.keeper import limits, records
from jobd.backends.process.keeper.child import become_job
from jobd.backends.process.keeper.job import FORKED, RUNNING, Job
from jobd.backends.process.keeper.spawn import FastWay, environment, tick_now
from jobd.backends.process.keeper.state import State
from jobd.crashpoint import crash_point

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DESCRIPTORS = 1 << 20
_ALL = signal.valid_signals()
_PASSING = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT)


class Starter:
    """Starts what was granted.

    Args:
        state: the keeper's state.
        poller: where the error pipes of forked children are watched.
        lock: the descriptor whose release tells of the keeper's death: a child that hangs must not hold it.
    """

    def __init__(self, state: State, poller: select.poll, lock: int) -> None:
        self._state = state
        self._poller = poller
        self._lock = lock
        self._fast = FastWay()
        self.pipes: dict[int, Job] = {}

    def grant(self, envs: dict[str, list[Any]], specs: list[dict[str, Any]]) -> None:
        """Take grants into the queue; one that is known already is a repeat."""
        state = self._state
        for name, entries in envs.items():
            state.envs[name] = [records.text(entry) for entry in entries]
        for spec in specs:
            token = spec["t"].encode()
            if token not in state.jobs:
                job = state.jobs[token] = Job(spec, records.simple(b"granted", token))
                state.queue.append(job)

    def start_waiting(self) -> int:
        """Start all that fit, in order; how many."""
        state, count = self._state, 0
        while state.queue and state.fits(state.queue[0]):
            self._start(state.queue.popleft())
            count += 1
        if count and not state.queue:
            self._fast.leave()
            state.drop_unused_environments()
        return count

    def _start(self, job: Job) -> None:
        starting = records.simple(b"starting", job.token)
        try:
            self._state.journal.append(starting)
        except OSError as error:
            self._refuse(job, error)
            return
        crash_point("after-starting")
        assert job.spec is not None
        env = environment(job.spec, self._state.envs)
        if not (job.spec.get("fast") and self._spawn(job, env)):
            self._fork(job, env)

    def _spawn(self, job: Job, env: dict[bytes, bytes]) -> bool:
        """The fast way; False where the slow one has to find out what is wrong."""
        assert job.spec is not None
        job.note_start()
        try:
            pid = self._fast.spawn(job.spec, env)
        except OSError as error:
            if error.errno in _PASSING:
                self._refuse(job, error)
                return True
            return False
        crash_point("after-fork")
        self._started(job, pid, executed=True)
        return True

    def _fork(self, job: Job, env: dict[bytes, bytes]) -> None:
        """The slow way. The child is the first to journal its start: it may be stuck before its exec for ever."""
        assert job.spec is not None
        # Blocked until the child has its default dispositions back, so that no TERM is swallowed in between.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ALL)
        reading = writing = -1
        try:
            reading, writing = os.pipe2(os.O_CLOEXEC)
            job.note_start()
            pid = os.fork()
            if pid == 0:
                self._in_child(job, env, writing)
        except OSError as error:
            for descriptor in (reading, writing):
                if descriptor >= 0:
                    os.close(descriptor)
            self._refuse(job, error)
            return
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.close(writing)
        os.set_blocking(reading, False)
        crash_point("after-fork")
        self._watch(job, reading)
        self._started(job, pid, executed=False)

    def _in_child(self, job: Job, env: dict[bytes, bytes], writing: int) -> None:
        os.close(self._lock)
        assert job.spec is not None
        record = _record(job, os.getpid(), tick_now(), executed=False)
        try:
            self._state.journal.append(record)
        except OSError:
            pass  # the keeper keeps it, and writes it when there is room
        os.closerange(3, writing)
        os.closerange(writing + 1, _DESCRIPTORS)
        become_job(job.spec, env, writing)

    def _watch(self, job: Job, reading: int) -> None:
        job.error_pipe = reading
        self.pipes[reading] = job
        self._state.forking += 1
        self._poller.register(reading, select.POLLIN)

    def _started(self, job: Job, pid: int, *, executed: bool) -> None:
        state = self._state
        job.pid = pid
        job.high = tick_now()
        job.phase = RUNNING if executed else FORKED
        job.resumed = time.monotonic()
        record = _record(job, pid, job.high, executed=executed)
        job.records.clear()
        state.leaders[pid] = job
        state.used += job.slots
        state.note(job, record)
        limits.arm(state, job)
        job.spec = None

    def executed(self, descriptor: int) -> None:
        """A forked child's pipe says something: it came to its exec, or tells which step failed."""
        job = self.pipes.get(descriptor)
        if job is None or job.phase != FORKED:
            return
        try:
            message = os.read(descriptor, 256)
        except BlockingIOError:
            return
        job.failed += message
        if message or job.failed:
            return
        self.close_pipe(job)
        job.phase = RUNNING
        self._state.note(job, records.simple(b"executed", job.token))

    def close_pipe(self, job: Job) -> None:
        """Nothing more is to come from a child's pipe."""
        if job.error_pipe >= 0:
            self._poller.unregister(job.error_pipe)
            del self.pipes[job.error_pipe]
            os.close(job.error_pipe)
            job.error_pipe = -1
            self._state.forking -= 1

    def _refuse(self, job: Job, error: OSError) -> None:
        code = errno.errorcode.get(error.errno or 0, "EIO")
        record = records.refused(job.token, code, f"it could not be started: {os.strerror(error.errno or 0)}")
        self._state.jobs.pop(job.token, None)
        self._state.say(record)
        try:
            self._state.journal.append(records.simple(b"revoked", job.token))
        except OSError:
            pass  # it has no `started`, and the daemon, which is told, looks no further


def _record(job: Job, pid: int, high: int, *, executed: bool) -> bytes:
    return records.started(job.token, pid, job.low, high, job.at, job.boot, executed)
