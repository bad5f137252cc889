"""How a process ended that is no child of ours, or fell to us: what the kernel still tells. Blocking, briefly."""

from __future__ import annotations

import fcntl
import os
import select
import struct

from jobd.backends.process.wire import signal_name
from jobd.model.status import Exited, Outcome, Signalled, Unknown, Usage

_PIDFD_GET_INFO = 0xC040FF0B
_PIDFD_INFO_EXIT = 1 << 3
# struct pidfd_info: mask, cgroup id; pid, tgid, ppid, eight ids; exit status
_INFO = struct.Struct("QQ11Ii")
_TICK_FIELD = 19
_STATUS_FIELD = 49
_REAPED_WITHIN = 1000


def how_it_ended(pid: int, descriptor: int, ticks: range) -> tuple[Outcome, Usage]:
    """The end of a process that a pidfd says has ended.

    From being its parent, from the pidfd (Linux 6.15, once somebody has reaped it), or from ``/proc`` while it is a
    zombie. ``ticks`` are those at which it may have started: the pid may be another's by now.
    """
    as_parent = _waited(pid)
    if as_parent is not None:
        return as_parent
    code = _info(descriptor)
    if code is None:
        code = _zombie(pid, ticks)
    if code is None and _reaped(descriptor):
        code = _info(descriptor)
    return (Unknown() if code is None else outcome(code)), Usage()


def _waited(pid: int) -> tuple[Outcome, Usage] | None:
    """What its parent is told; None where somebody else is that."""
    try:
        reaped, status, used = os.wait4(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    if not reaped:
        return None
    usage = Usage(used.ru_utime, used.ru_stime, used.ru_maxrss * 1024, used.ru_inblock, used.ru_oublock)
    return outcome(status), usage


def outcome(status: int) -> Outcome:
    """An outcome from a wait status."""
    if os.WIFSIGNALED(status):
        return Signalled(signal_name(os.WTERMSIG(status)), os.WCOREDUMP(status))
    return Exited(os.WEXITSTATUS(status))


def _info(descriptor: int) -> int | None:
    """The wait status that the kernel keeps with a pidfd after the process was reaped (PIDFD_GET_INFO)."""
    buffer = bytearray(_INFO.size)
    struct.pack_into("Q", buffer, 0, _PIDFD_INFO_EXIT)
    try:
        fcntl.ioctl(descriptor, _PIDFD_GET_INFO, buffer)
    except OSError:
        return None
    mask, *_, status = _INFO.unpack(buffer)
    return int(status) if mask & _PIDFD_INFO_EXIT else None


def _zombie(pid: int, ticks: range) -> int | None:
    """exit_code in proc_pid_stat(5). Without permission it reads 0, a lie: so not then."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read()
        owner = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None
    fields = data[data.rindex(b")") + 2 :].split()
    ours = fields[0] == b"Z" and int(fields[_TICK_FIELD]) in ticks
    return int(fields[_STATUS_FIELD]) if ours and os.geteuid() in (0, owner) else None


def _reaped(descriptor: int) -> bool:
    """Whether its parent reaps it within a moment (POLLHUP)."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(_REAPED_WITHIN))
