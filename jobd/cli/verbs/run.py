"""``jobd run``: submit, follow the output, exit as the job did."""

from __future__ import annotations

import os
import select
import signal

from jobd.cli.connection import Connection, Daemon
from jobd.cli.exit_codes import outcome
from jobd.cli.failing import INTERRUPTED, note
from jobd.cli.options import Parser
from jobd.cli.template import add_template_options, captured, request_id, split_command, template_of
from jobd.model.errors import InvalidArgument, from_wire
from jobd.model.text import unwrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ENDING = (signal.SIGINT, signal.SIGTERM)


class Detached(Exception):
    """The caller leaves; the job runs on."""


def main(words: list[str]) -> int:
    """Run a job as if it were started here."""
    options, command = _parse(words)
    template = template_of(options, command)
    interrupts = Interrupts()
    daemon = Daemon(options)
    params = {"templates": [template], "captured": captured(options), "request_id": request_id(options)}
    job = daemon.request("submit", params)["jobs"][0]["job_id"]
    try:
        return outcome(Follower(daemon, job, _streams(template), interrupts).follow())
    except Detached:
        note(f"job {job} runs on")
        return INTERRUPTED


def _parse(words: list[str]) -> tuple[Any, list[str]]:
    parser = Parser("run", "Run a job and exit as it did.", usage="jobd run [options] -- CMD ARG...")
    add_template_options(parser)
    before, command = split_command(words)
    if not command:
        parser.add_argument("command", nargs="...")
    options = parser.parse_args(before)
    command = command or options.command
    if not command:
        raise InvalidArgument("there is no command", hint="jobd run -- CMD ARG...")
    return options, command


def _streams(template: dict[str, Any]) -> list[str]:
    """A stream that goes to a file is only there."""
    paths = {"stdout": "output_path", "stderr": "error_path"}
    return [name for name, path in paths.items() if path not in template]


class Interrupts:
    """Signals as something to select on: a handler that raised could lose what was just read."""

    def __init__(self) -> None:
        self._reading, writing = os.pipe()
        os.set_blocking(writing, False)
        for number in (*_ENDING, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda number, frame: os.write(writing, bytes([number])) and None)
        self._asked = False

    def fileno(self) -> int:
        """For select(2)."""
        return self._reading

    def take(self) -> bool:
        """Whether the job is to be ended: at the first Ctrl-C or TERM.

        Raises:
            Detached: at the second, and at SIGHUP.
        """
        for number in os.read(self._reading, 64):
            if self._asked or number == signal.SIGHUP:
                raise Detached
            self._asked = True
        return True


class Follower:
    """Passes a job's output on, byte by byte as it is, through any restart of the daemon."""

    def __init__(self, daemon: Daemon, job: str, streams: list[str], interrupts: Interrupts) -> None:
        self._daemon = daemon
        self._job = job
        self._offsets = dict.fromkeys(streams, 0)
        self._targets: dict[str, int | None] = {"stdout": 1, "stderr": 2}
        self._interrupts = interrupts
        self._ending = False
        self._terminations: list[Connection] = []

    def follow(self) -> dict[str, Any]:
        """Until the job has ended; its info."""
        return self._daemon.through_restarts(self._follow)

    def _follow(self, connection: Connection) -> dict[str, Any]:
        if self._ending:
            self._terminate()
        self._logs(connection)
        return self._wait(connection)

    def _logs(self, connection: Connection) -> None:
        if not self._offsets:
            return
        params = {"job": self._job, "streams": list(self._offsets), "follow": True, "offsets": self._offsets}
        number = connection.send("logs", params)
        while True:
            message = self._next(connection)
            if message.get("id") == number and "error" in message:
                raise from_wire(message["error"])
            if message.get("method") == "output":
                self._pass_on(message["params"])
            elif message.get("method") == "output_end":
                if message["params"].get("error"):
                    raise from_wire(message["params"]["error"])
                return

    def _wait(self, connection: Connection) -> dict[str, Any]:
        number = connection.send("wait", {"selection": {"ids": [self._job]}})
        while True:
            message = self._next(connection)
            if message.get("id") == number:
                if "error" in message:
                    raise from_wire(message["error"])
                info: dict[str, Any] = message["result"]["jobs"][0]
                return info

    def _next(self, connection: Connection) -> dict[str, Any]:
        """The next message; meanwhile a signal may ask for the job's end."""
        while not connection.pending:
            ready = self._ready(connection)
            if self._interrupts.fileno() in ready and self._interrupts.take():
                self._end()
            if connection.fileno() in ready:
                break
        return connection.receive()

    def _ready(self, connection: Connection) -> list[int]:
        return select.select([connection.fileno(), self._interrupts.fileno()], [], [])[0]

    def _pass_on(self, params: dict[str, Any]) -> None:
        name, data = params["stream"], unwrap(params["data"])
        self._offsets[name] = params["offset"] + len(data)
        target = self._targets[name]
        if target is None:
            return
        try:
            _write_all(target, data)
        except BrokenPipeError:
            self._targets[name] = None
            self._end()

    def _end(self) -> None:
        if not self._ending:
            self._ending = True
            self._terminate()

    def _terminate(self) -> None:
        """Ask for the job's end without waiting for it here: its output goes on meanwhile."""
        connection = self._daemon.connect()
        connection.send("terminate", {"selection": {"ids": [self._job]}})
        self._terminations.append(connection)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
