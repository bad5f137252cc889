"""SIGCHLD: ends with their usage, stops and continues, and orphans that fell to the keeper."""

from __future__ import annotations

import os
import resource
import time

from jobd.backends.process.keeper import ending, records
from jobd.backends.process.keeper.job import ENDED, FORKED, Job
from jobd.backends.process.keeper.starting import Starter
from jobd.backends.process.keeper.state import State
from jobd.backends.process.keeper.tree import Process, children, look
from jobd.crashpoint import crash_point

_SWEEP = 1.0
_OPTIONS = os.WNOHANG | os.WUNTRACED | os.WCONTINUED


class Reaper:
    """Takes what the kernel has to say of children, and follows what ended jobs left behind."""

    def __init__(self, state: State, starter: Starter) -> None:
        self._state = state
        self._starter = starter
        self._unfreed: list[Job] = []
        self._unswept: list[Job] = []
        self._sweeping = False

    def reap(self) -> bool:
        """Take all that is there; whether there was anything. SIGCHLD coalesces, so one may stand for many."""
        ended: list[tuple[Job, int, resource.struct_rusage]] = []
        orphans = False
        while True:
            try:
                pid, status, usage = os.wait4(-1, _OPTIONS)
            except ChildProcessError:
                break
            if pid == 0:
                break
            job = self._state.leaders.get(pid)
            if job is None:
                orphans = True
            elif os.WIFSTOPPED(status):
                self._stopped(job)
            elif os.WIFCONTINUED(status):
                self._continued(job)
            else:
                del self._state.leaders[pid]
                ended.append((job, status, usage))
        # Only now: a child of the group that ended with its leader is a zombie until it is reaped, too.
        for one in ended:
            self._ended(*one)
        if ended or orphans:
            self._look_at_leftovers()
        return bool(ended or orphans)

    def _stopped(self, job: Job) -> None:
        if not job.stopped:
            job.ran = job.running_time(time.monotonic())
            job.stopped = True
            self._state.note(job, records.simple(b"stopped", job.token))

    def _continued(self, job: Job) -> None:
        if job.stopped:
            job.stopped = False
            job.resumed = time.monotonic()
            self._state.note(job, records.simple(b"continued", job.token))
            if job.on_continue is not None:
                job.on_continue(job.resumed)

    def _ended(self, job: Job, status: int, usage: resource.struct_rusage) -> None:
        state = self._state
        self._read_pipe(job)
        wall = max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - job.boot)
        job.freed = job.leave or not group_alive(job.pid)
        how = _how(job, status)
        record = records.ended(job.token, job.pid, how, (time.time(), wall), _usage(usage), job.freed)
        job.phase = ENDED
        state.note(job, record)
        crash_point("after-ended")
        if job.freed:
            state.used -= job.slots
        else:
            self._unfreed.append(job)
        self._follow(job)

    def _read_pipe(self, job: Job) -> None:
        if job.phase == FORKED:
            self._starter.executed(job.error_pipe)
            self._starter.close_pipe(job)

    def _follow(self, job: Job) -> None:
        """What is left of the tree gets a moment to end by itself, then it is ended; unless it may stay."""
        if job.leave:
            ending.done(self._state, job)
            return
        if job.ending is not None:
            return
        job.left_since = time.monotonic()
        self._unswept.append(job)
        if not self._sweeping:
            self._sweeping = True
            self._state.at(job.left_since + _SWEEP, self.sweep)

    def _look_at_leftovers(self) -> None:
        self._unfreed = [job for job in self._unfreed if not self._freed(job)]
        for job in list(self._state.ending.values()):
            ending.settle(self._state, job)

    def _freed(self, job: Job) -> bool:
        if group_alive(job.pid):
            return False
        job.freed = True
        self._state.used -= job.slots
        self._state.note(job, records.simple(b"freed", job.token))
        return True

    def sweep(self, now: float) -> None:
        """Once a second: which of the jobs that ended have left something, looked at once for all of them."""
        busy = self._owners_of_orphans()
        waiting: list[Job] = []
        for job in self._unswept:
            if job.ending is not None:
                continue
            if job.token not in busy:
                ending.done(self._state, job)
            elif now - job.left_since >= ending.LEFT_ALONE:
                ending.begin(self._state, job, None, ending.LEFT_GRACE, now)
            else:
                waiting.append(job)
        self._unswept = waiting
        self._sweeping = bool(waiting)
        if waiting:
            self._state.at(now + _SWEEP, self.sweep)

    def _owners_of_orphans(self) -> set[bytes]:
        """The tokens of ended jobs that something is left of: each orphan is looked at once."""
        leaders = self._state.leaders
        orphans = [pid for pid in children(self._state.pid) if pid not in leaders]
        if not orphans:
            return set()
        by_pid = {job.pid: job.token for job in self._unswept}
        return {token for pid in orphans if (seen := look(pid)) and (token := owner(seen, by_pid))}


def owner(process: Process, by_pid: dict[int, bytes]) -> bytes | None:
    """Whose an orphan is: by its session, else by the token in its environment."""
    if process.state == "Z":
        return None
    if process.session in by_pid:
        return by_pid[process.session]
    try:
        with open(f"/proc/{process.pid}/environ", "rb") as file:
            for entry in file.read().split(b"\0"):
                if entry.startswith(b"JOBD_TOKEN="):
                    return entry[len(b"JOBD_TOKEN=") :]
    except OSError:
        pass
    return None


def group_alive(pgid: int) -> bool:
    """Whether a process group has anyone left (kill(2) with signal 0)."""
    try:
        os.killpg(pgid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _how(job: Job, status: int) -> bytes:
    if job.failed:
        step, _, code = job.failed.partition(b":")
        return b'"step":"%s","errno":"%s","cause":%s' % (step, code, _cause(job))
    if os.WIFSIGNALED(status):
        core = b"true" if os.WCOREDUMP(status) else b"false"
        return b'"sig":%d,"core":%s,"cause":%s' % (os.WTERMSIG(status), core, _cause(job))
    return b'"status":%d,"cause":%s' % (os.WEXITSTATUS(status), _cause(job))


def _cause(job: Job) -> bytes:
    return b"null" if job.cause is None else b'"%s"' % job.cause.encode()


def _usage(usage: resource.struct_rusage) -> bytes:
    """A child's maximum resident size starts at the keeper's own: at or below that it says nothing."""
    floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rss = b"%d" % (usage.ru_maxrss * 1024) if usage.ru_maxrss > floor else b"null"
    values = (usage.ru_utime, usage.ru_stime, rss, usage.ru_inblock, usage.ru_oublock)
    return b'"ut":%.6f,"st":%.6f,"rss":%s,"ib":%d,"ob":%d' % values
