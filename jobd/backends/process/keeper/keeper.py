"""The keeper's loop: one poll for its sockets, its children and its timers."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import time

from jobd.backends.process.keeper import order, records
from jobd.backends.process.keeper.connection import FIRST_DAEMON, Daemons
from jobd.backends.process.keeper.control import Control
from jobd.backends.process.keeper.journal import FILE, Journal
from jobd.backends.process.keeper.reaping import Reaper
from jobd.backends.process.keeper.spawn import tick_now
from jobd.backends.process.keeper.starting import Starter
from jobd.backends.process.keeper.state import HOLD_BACK, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_REAP_AHEAD = 200
_LONGEST_WAIT = 86400.0
_SOCKET = "sock"
_LOCK = "lock"


def main(folder: str) -> None:
    """Be the keeper of a folder until there is nothing left to keep."""
    order.put_in_order()
    lock = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    Keeper(folder, lock).run()


class Keeper:
    """Wires the parts together and turns the loop."""

    def __init__(self, folder: str, lock: int) -> None:
        self._folder = folder
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot_id = file.read().strip()
        pid = os.getpid()
        self._poller = select.poll()
        self._wakeup = self._make_wakeup()
        journal = Journal(folder, records.header(pid, tick_now(), boot_id))
        self._state = State(journal, pid)
        self._daemons = Daemons(self._listen(), self._poller, self._serve, boot_id, pid)
        self._starter = Starter(self._state, self._poller, lock)
        self._reaper = Reaper(self._state, self._starter)
        control = Control(self._state)
        self._operations: dict[str, Callable[[dict[str, Any]], None]] = {
            "capacity": self._set_capacity,
            "grant": lambda message: self._starter.grant(message["envs"], message["jobs"]),
            "revoke": control.revoke,
            "end": control.end,
            "suspend": control.suspend,
            "resume": control.resume,
            "signal": control.signal,
            "ack": control.ack,
        }
        self._held_until = 0.0
        # A keeper whose daemon died before it came is of no use: the loop looks once more when patience ends.
        self._state.at(time.monotonic() + FIRST_DAEMON + 1.0, lambda now: None)
        _say_ready()

    def _make_wakeup(self) -> tuple[socket.socket, socket.socket]:
        """A signal writes a byte into one end, which wakes the poll at the other."""
        reading, writing = socket.socketpair()
        reading.setblocking(False)
        writing.setblocking(False)
        signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        self._poller.register(reading, select.POLLIN)
        return reading, writing

    def _listen(self) -> socket.socket:
        """The socket, bound by a relative name: the folder's path may be longer than an address."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        os.chdir(self._folder)
        listener.bind(_SOCKET)
        os.chdir("/")
        listener.listen(8)
        listener.setblocking(False)
        return listener

    def run(self) -> None:
        """Serve until there is no job, no unacknowledged end and no daemon."""
        while self._daemons.expected or not self._state.idle:
            for descriptor, event in self._poller.poll(self._patience()):
                self._happened(descriptor, event)
            self._reaper.reap()
            self._state.run_timers(time.monotonic())
            # A job this short may have ended by the time the next one has been started.
            while self._starter.start_waiting() and len(self._state.leaders) < _REAP_AHEAD and self._reaper.reap():
                pass
            self._speak()
        self._leave()

    def _patience(self) -> int | None:
        """Milliseconds to the next thing that is due, None if nothing is."""
        due = self._state.next_timer()
        if self._state.outgoing:
            due = self._held_until if due is None else min(due, self._held_until)
        return None if due is None else milliseconds(due - time.monotonic())

    def _happened(self, descriptor: int, event: int) -> None:
        if descriptor == self._wakeup[0].fileno():
            self._drain()
        elif descriptor in self._starter.pipes:
            self._starter.executed(descriptor)
        else:
            self._daemons.happened(descriptor, event)

    def _drain(self) -> None:
        try:
            self._wakeup[0].recv(4096)
        except BlockingIOError:
            return

    def _serve(self, message: dict[str, Any]) -> None:
        """One message of the daemon's; ``hello`` is answered with everything that is known."""
        if message["op"] == "hello":
            self._state.connected = True
            self._state.outgoing[:] = self._state.replay()
        else:
            self._operations[message["op"]](message)

    def _set_capacity(self, message: dict[str, Any]) -> None:
        self._state.capacity = message["slots"]

    def _speak(self) -> None:
        """Send what is to be said; reports are held back a moment while granted work waits and no slot is free."""
        state = self._state
        if state.connected and not self._daemons.connected:
            # Nobody asks any more: what left nothing is forgotten now, so that an idle keeper leaves with its daemon.
            self._reaper.sweep(time.monotonic())
        state.connected = self._daemons.connected
        if not state.outgoing:
            return
        now = time.monotonic()
        if state.queue and not state.fits(state.queue[0]):
            if not self._held_until:
                self._held_until = now + HOLD_BACK
            if now < self._held_until:
                return
        self._held_until = 0.0
        lines, state.outgoing = state.outgoing, []
        self._daemons.send(b"".join(lines))

    def _leave(self) -> None:
        for name in (_SOCKET, FILE, _LOCK):
            try:
                os.unlink(os.path.join(self._folder, name))
            except FileNotFoundError:
                continue
        try:
            os.rmdir(self._folder)
        except OSError:
            return


def milliseconds(seconds: float) -> int:
    """A timeout for poll(2), which takes no more than 24 days: whoever waits longer looks in between."""
    return max(0, int(min(seconds, _LONGEST_WAIT) * 1000) + 1)


def _say_ready() -> None:
    """Tell whoever started this keeper, over its stdout, that the socket is there; then let go of it."""
    os.write(1, b"ready\n")
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 1)
    os.close(null)
