"""Which processes belong to a job, and how they are signalled without ever hitting anybody else.

Looked for only among the keeper's own descendants, which as a subreaper's include all that were daemonised: by descent
from the leader, by the leader's session, and by the attempt's token in the environment.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

STOPPED = ("T", "t")
"""The states of a process that is stopped, by a signal or by a debugger."""


class Process:
    """A process as it was seen: pid, parent, session, state letter and start tick (proc_pid_stat(5))."""

    __slots__ = ("pid", "parent", "session", "state", "tick")

    def __init__(self, pid: int, parent: int, session: int, state: str, tick: int) -> None:
        self.pid = pid
        self.parent = parent
        self.session = session
        self.state = state
        self.tick = tick


def look(pid: int) -> Process | None:
    """A process by its pid, None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read()
    except OSError:
        return None
    # The name is in parentheses and may hold spaces and parentheses itself.
    fields = data[data.rindex(b")") + 2 :].split()
    return Process(pid, int(fields[1]), int(fields[3]), fields[0].decode(), int(fields[19]))


def children(pid: int) -> list[int]:
    """The children of all threads of a process (proc_pid_task_tid_children(5))."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:
        pass
    return found


def descendants(pid: int) -> list[Process]:
    """Every process below one, parents before children."""
    found: list[Process] = []
    todo = [pid]
    for parent in todo:
        for child in children(parent):
            seen = look(child)
            if seen is not None:
                found.append(seen)
                todo.append(child)
    return found


def has_token(pid: int, token: bytes) -> bool:
    """Whether a process was started with this attempt's token in its environment (proc_pid_environ(5))."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"JOBD_TOKEN=" + token in file.read().split(b"\0")
    except OSError:
        return False


def tree(leader: int, token: bytes, keeper: int, leaders: Container[int]) -> list[Process]:
    """The processes of a job, the leader first while it is there; zombies are left out.

    ``leaders`` are the pids of all jobs' leaders: other children of the keeper are orphans, which fell to it when their
    parents ended, and of each it is asked whose it is.
    """
    found: dict[int, Process] = {}
    first = look(leader) if leader in leaders else None
    if first is not None:
        found[leader] = first
        _add(found, descendants(leader))
    for pid in children(keeper):
        orphan = look(pid) if pid not in leaders and pid not in found else None
        if orphan is not None and (orphan.session == leader or has_token(pid, token)):
            found[pid] = orphan
            _add(found, descendants(pid))
    return [process for process in found.values() if process.state != "Z"]


def _add(found: dict[int, Process], more: list[Process]) -> None:
    for process in more:
        found[process.pid] = process


def send(process: Process, number: int, keeper: int) -> None:
    """Signal a process, if it is still the one that was seen.

    The keeper's own children can't be replaced before it reaps them. Of any other the pid might have been reused: a
    pidfd holds on to the process while its start tick is compared.
    """
    try:
        if process.parent == keeper:
            os.kill(process.pid, number)
            return
        descriptor = os.pidfd_open(process.pid)
        try:
            now = look(process.pid)
            if now is not None and now.tick == process.tick:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)
    except ProcessLookupError:
        pass


def stop_harder(found: list[Process], keeper: int) -> list[Process]:
    """Stop what is not stopped yet of a tree; which processes those were.

    A parent in vfork(2) waits uninterruptibly (state D) for its child's exec, and takes no stop before that. A child of
    such a one that was stopped in between is let go on, and stopped the next time.
    """
    running = [process for process in found if process.state not in STOPPED]
    waiting = {process.pid for process in running if process.state == "D"}
    for process in found:
        if process.state not in STOPPED:
            send(process, signal.SIGSTOP, keeper)
        elif process.parent in waiting:
            send(process, signal.SIGCONT, keeper)
    return running


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal (SigCgt, proc_pid_status(5))."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except OSError:
        pass
    return False
