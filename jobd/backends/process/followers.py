"""Jobs whose keeper is dead: they run on, and the daemon follows each by a pidfd until it ends."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import time
from collections.abc import Iterator

import anyio
import structlog

from jobd.backends.base import ContinuedSeen, EndedSeen, Observer, StoppedSeen
from jobd.backends.process.keeper.tree import Process, catches, descendants, has_token, look, send
from jobd.backends.process.recovery import Found, still_runs
from jobd.backends.process.wire import signal_name
from jobd.crashpoint import crash_point
from jobd.model.errors import CannotEnd, InvalidState
from jobd.model.status import Exited, Outcome, Signalled, Unknown, Usage

_log = structlog.get_logger(__name__)

_PIDFD_GET_INFO = 0xC040FF0B
_PIDFD_INFO_EXIT = 1 << 3
_INFO_SIZE = 64
_EXIT_CODE_FIELD = 49
_LOOK = 0.05
_GIVE_UP = 10.0
_PATIENCE = 5.0
_UNKNOWN = "Its keeper died, and the kernel tells its exit status to nobody else here."


class Follower:
    """One running job without a keeper."""

    def __init__(self, found: Found, machine: str, observer: Observer) -> None:
        self.found = found
        self.cause = found.cause
        self._machine = machine
        self._observer = observer
        self._pid = found.identity.pid
        self._descriptor = -1
        self.ended = anyio.Event()

    def attach(self) -> bool:
        """Take hold of the process; False where it is gone, or the pid is another's by now."""
        try:
            self._descriptor = os.pidfd_open(self._pid)
        except OSError:
            return False
        if still_runs(self.found.identity):
            return True
        os.close(self._descriptor)
        return False

    async def run(self) -> None:
        """Wait for the end and report it."""
        try:
            await anyio.wait_readable(self._descriptor)
            outcome, usage = self._status()
        finally:
            os.close(self._descriptor)
        crash_point("before-record")
        unknown = isinstance(outcome, Unknown)
        ended = EndedSeen(
            id=self.found.id,
            attempt=self.found.attempt,
            outcome=outcome,
            at=time.time(),
            native_id=str(self._pid),
            machine=self._machine,
            wallclock_time=self._wallclock(),
            usage=usage,
            cause=self.cause,
            annotation=_UNKNOWN if unknown else None,
        )
        await self._observer.observe([ended])
        self.ended.set()

    def _wallclock(self) -> float | None:
        began = self.found.identity.boot
        return time.clock_gettime(time.CLOCK_BOOTTIME) - began if began else None

    def _status(self) -> tuple[Outcome, Usage]:
        """From being the parent, from the pidfd (Linux 6.15), or from /proc while it is a zombie."""
        try:
            pid, status, used = os.wait4(self._pid, os.WNOHANG)
            if pid:
                return _outcome(status), Usage(used.ru_utime, used.ru_stime, used.ru_maxrss * 1024, used.ru_inblock, used.ru_oublock)
        except ChildProcessError:
            pass
        code = zombie_status(self._pid, self.found) if (info := exit_info(self._descriptor)) is None else info
        return (Unknown() if code is None else _outcome(code)), Usage()

    def tree(self) -> list[Process]:
        """Its processes: by descent, by session, and by token. They may have fallen to any parent, so all are looked at."""
        leader = look(self._pid)
        found = {process.pid: process for process in descendants(self._pid)}
        if leader is not None and still_runs(self.found.identity):
            found[self._pid] = leader
        for process in _everybody():
            if process.pid not in found and self._owns(process):
                found[process.pid] = process
                found.update({child.pid: child for child in descendants(process.pid)})
        return [process for process in found.values() if process.state != "Z"]

    def _owns(self, process: Process) -> bool:
        token = self.found.token.encode()
        return process.session == self._pid or (bool(token) and has_token(process.pid, token))

    async def terminate(self, cause: str | None, grace: float) -> None:
        """End the tree: TERM, CONT, grace, KILL.

        Raises:
            CannotEnd: processes outlived SIGKILL.
        """
        self.cause = self.cause or cause
        if await self._until_gone(grace, signal.SIGTERM, signal.SIGCONT):
            return
        if not await self._until_gone(_GIVE_UP, signal.SIGKILL, again=True):
            pids = ", ".join(str(process.pid) for process in self.tree())
            raise CannotEnd(f"processes outlived SIGKILL: {pids} (uninterruptible sleep)")

    async def _until_gone(self, patience: float, *numbers: int, again: bool = False) -> bool:
        """Signal the tree and wait for its end; nothing tells of the end of processes that are nobody's children here."""
        self.signal_all(*numbers)
        until = time.monotonic() + patience
        while await anyio.to_thread.run_sync(self.tree):
            if time.monotonic() >= until:
                return False
            await anyio.sleep(_LOOK)
            if again:
                self.signal_all(*numbers)
        return True

    def signal_all(self, *numbers: int, leader_only: bool = False) -> None:
        """Send signals to the tree."""
        found = [process for process in self.tree() if not leader_only or process.pid == self._pid]
        for number in numbers:
            for process in found:
                send(process, number, -1)

    async def suspend(self) -> None:
        """Stop the tree and report it.

        Raises:
            InvalidState: it does not stop.
        """
        for process in self.tree():
            send(process, signal.SIGTSTP if catches(process.pid, signal.SIGTSTP) else signal.SIGSTOP, -1)
        await self._until(("T", "t"), signal.SIGSTOP)
        await self._observer.observe([StoppedSeen(self.found.id, self.found.attempt)])

    async def resume(self) -> None:
        """Let the tree go on and report it."""
        self.signal_all(signal.SIGCONT)
        await self._observer.observe([ContinuedSeen(self.found.id, self.found.attempt)])

    async def _until(self, states: tuple[str, ...], number: int) -> None:
        until = time.monotonic() + _PATIENCE
        while others := [process for process in self.tree() if process.state not in states]:
            if time.monotonic() > until:
                raise InvalidState(f"process {others[0].pid} does not stop", jobs=[str(self.found.id)])
            await anyio.sleep(_LOOK)
            for process in others:
                send(process, number, -1)


def exit_info(descriptor: int) -> int | None:
    """The wait status that the kernel keeps for a pidfd once its process was reaped (PIDFD_GET_INFO); None without."""
    buffer = bytearray(_INFO_SIZE)
    struct.pack_into("Q", buffer, 0, _PIDFD_INFO_EXIT)
    try:
        fcntl.ioctl(descriptor, _PIDFD_GET_INFO, buffer)
    except OSError:
        return None
    mask = struct.unpack_from("Q", buffer, 0)[0]
    # u64 mask, cgroupid; u32 pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid; s32 exit_code
    return int(struct.unpack_from("i", buffer, 60)[0]) if mask & _PIDFD_INFO_EXIT else None


def zombie_status(pid: int, found: Found) -> int | None:
    """exit_code in proc_pid_stat(5), while it is a zombie. Without permission it reads 0, a lie: so not then."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read()
        owner = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None
    fields = data[data.rindex(b")") + 2 :].split()
    allowed = os.geteuid() in (0, owner)
    ours = found.identity.low - 1 <= int(fields[19]) <= found.identity.high + 1
    return int(fields[_EXIT_CODE_FIELD]) if fields[0] == b"Z" and ours and allowed else None


def _outcome(status: int) -> Outcome:
    if os.WIFSIGNALED(status):
        return Signalled(signal_name(os.WTERMSIG(status)), os.WCOREDUMP(status))
    return Exited(os.WEXITSTATUS(status))


def _everybody() -> Iterator[Process]:
    for name in os.listdir("/proc"):
        if name.isdigit() and (seen := look(int(name))) is not None:
            yield seen
