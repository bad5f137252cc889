"""What a daemon asks of running jobs: stop, continue, signal, end, take back."""

from __future__ import annotations

import signal
import time

from jobd.backends.process.keeper import ending, records
from jobd.backends.process.keeper.job import ENDED, GRANTED, Job
from jobd.backends.process.keeper.state import State
from jobd.backends.process.keeper.tree import STOPPED, catches, send, stop_harder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_POLITE = 0.15
_AGAIN = 0.05
_GIVE_UP = 5.0


class Control:
    """Serves the operations, each by the name that it has on the wire."""

    def __init__(self, state: State) -> None:
        self._state = state

    def revoke(self, message: dict[str, Any]) -> None:
        """Take grants back: those that have not started are forgotten, and named in the answer."""
        state = self._state
        revoked = []
        for token in message["t"]:
            job = state.jobs.get(token.encode())
            if job is None:
                revoked.append(token)
            elif job.phase == GRANTED:
                state.drop_granted(job, records.simple(b"revoked", job.token))
                state.queue.remove(job)
                revoked.append(token)
        state.say(records.answer(message["id"], revoked=revoked))

    def end(self, message: dict[str, Any]) -> None:
        """End a job; answered when its tree is gone. One that is not known has nothing left."""
        job = self._job(message)
        if job is None or job.settled:
            self._state.say(records.answer(message["id"], ok=True))
        elif job.phase == GRANTED:
            self._refuse(message, "it has not started", "EAGAIN")
        else:
            ending.begin(self._state, job, message.get("cause"), message["grace"], time.monotonic(), message["id"])

    def suspend(self, message: dict[str, Any]) -> None:
        """Stop all processes; answered when they are seen stopped."""
        job = self._active(message)
        if job is None:
            return
        for process in ending.processes(self._state, job):
            # The kernel ignores the default stop of SIGTSTP in a group without a parent in its session.
            number = signal.SIGTSTP if catches(process.pid, signal.SIGTSTP) else signal.SIGSTOP
            send(process, number, self._state.pid)
        self._until_stopped(job, message, time.monotonic(), _POLITE)

    def _until_stopped(self, job: Job, message: dict[str, Any], began: float, patience: float) -> None:
        def check(now: float) -> None:
            found = ending.processes(self._state, job)
            running = [one for one in found if one.state not in STOPPED]
            if not job.active:
                self._refuse(message, "it has ended", "ESRCH")
            elif not running and job.stopped:
                self._state.say(records.answer(message["id"], ok=True))
            elif now - began > _GIVE_UP:
                self._refuse(message, f"process {running[0].pid if running else job.pid} does not stop", "EBUSY")
            else:
                if now - began >= _POLITE:
                    stop_harder(found, self._state.pid)
                self._state.at(now + _AGAIN, check)

        running = any(one.state not in STOPPED for one in ending.processes(self._state, job))
        self._state.at(began + (patience if running else 0.0), check)

    def resume(self, message: dict[str, Any]) -> None:
        """Let all processes go on; answered when the leader is seen to."""
        job = self._active(message)
        if job is None:
            return
        for process in ending.processes(self._state, job):
            send(process, signal.SIGCONT, self._state.pid)
        began = time.monotonic()

        def check(now: float) -> None:
            if not job.stopped:
                self._state.say(records.answer(message["id"], ok=True))
            elif now - began > _GIVE_UP:
                self._refuse(message, f"process {job.pid} does not go on", "EBUSY")
            else:
                self._state.at(now + _AGAIN, check)

        self._state.at(began, check)

    def signal(self, message: dict[str, Any]) -> None:
        """Send a signal to the whole tree, or to the leader."""
        job = self._active(message)
        if job is None:
            return
        found = ending.processes(self._state, job)
        for process in found[:1] if message.get("leader") else found:
            send(process, message["sig"], self._state.pid)
        self._state.say(records.answer(message["id"], ok=True))

    def ack(self, message: dict[str, Any]) -> None:
        """These ends are on record: they may be forgotten once nothing is left of them."""
        for token in message["t"]:
            job = self._state.jobs.get(token.encode())
            if job is not None and job.phase == ENDED:
                job.acked = True
                if job.settled:
                    self._state.forget(job)

    def _job(self, message: dict[str, Any]) -> Job | None:
        return self._state.jobs.get(message["t"].encode())

    def _active(self, message: dict[str, Any]) -> Job | None:
        job = self._job(message)
        if job is None or not job.active:
            self._refuse(message, "it is not running", "ESRCH")
            return None
        return job

    def _refuse(self, message: dict[str, Any], why: str, code: str) -> None:
        self._state.say(records.answer(message["id"], error=why, errno=code))
