"""A machine with systemd as its PID 1, in a container, for what can only be seen there."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.waiting import eventually

REPOSITORY = Path(__file__).parents[2]
SERVICE = REPOSITORY / "tests" / "services" / "systemd-nspawn"
# Kept between runs, since making the machine's tree takes a while.
MACHINE_FOLDER = Path("/var/cache/jobd-tests/systemd")

_LEFT_BY_JOBD = ("/var/lib/jobd", "/run/jobd", "/etc/jobd")
_DROP_IN = """\
[Service]
ExecStart=
ExecStart={python} -m jobd serve {options}
# Test a watchdog without waiting for a minute.
WatchdogSec={watchdog}
RestartSec=100ms
"""


@dataclass(frozen=True)
class Machine:
    """The container: ``shell`` runs a command in it."""

    root: Path
    shell: str

    def run(self, *words: str, check: bool = True) -> str:
        """Run a command in the machine as root; its output. What takes a minute is ended."""
        bounded = [self.shell, "timeout", "--kill-after=5", "60", *words]
        done = subprocess.run(bounded, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or not check, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def jobd(self, *words: str, check: bool = True) -> str:
        """Run the command line as root."""
        return self.run(sys.executable, "-m", "jobd", *words, check=check)

    def as_user(self, user: str, *words: str, check: bool = True) -> str:
        """Run a command as a user of the machine, who has a service manager."""
        uid = self.run("id", "-u", user)
        runtime = f"XDG_RUNTIME_DIR=/run/user/{uid}"
        prefix = [
            "setpriv",
            "--reuid",
            user,
            "--regid",
            user,
            "--init-groups",
            "env",
            f"HOME=/home/{user}",
            runtime,
        ]
        return self.run(*prefix, *words, check=check)

    def keepers(self) -> str:
        """The scopes of the system daemon's keepers."""
        return self.run("systemctl", "list-units", "--plain", "--no-legend", "jobd-keeper-*")

    def property(self, unit: str, name: str) -> str:
        """A property of a unit."""
        return self.run("systemctl", "show", "--value", f"--property={name}", unit)

    def write(self, path: str, text: str) -> None:
        """Write a file of the machine."""
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def install(self, source: str, folder: str, options: str, watchdog: str) -> None:
        """Install the repository's units, with this interpreter in place of the command on the PATH."""
        for kind in ("service", "socket"):
            self.write(f"{folder}/jobd.{kind}", (REPOSITORY / source / f"jobd.{kind}").read_text())
        drop_in = _DROP_IN.format(python=shlex.quote(sys.executable), options=options, watchdog=watchdog)
        self.write(f"{folder}/jobd.service.d/test.conf", drop_in)


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    """A machine that has booted, with this repository and interpreter in it."""
    if os.getuid() != 0:
        pytest.skip("needs root")
    missing = [program for program in ("systemd-nspawn", "mmdebstrap") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}")
    needed = sorted({str(REPOSITORY), sys.prefix, sys.base_prefix} - {"/usr"})
    binds = [word for path in needed for word in ("--bind-ro", path)]
    with one_at_a_time():
        yield from _booted(binds)


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Several runs of the tests share the machine's tree: each waits for the one before."""
    MACHINE_FOLDER.mkdir(parents=True, exist_ok=True)
    with open(MACHINE_FOLDER / "in-use", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _booted(binds: list[str]) -> Iterator[Machine]:
    subprocess.run([SERVICE, "start", MACHINE_FOLDER, *binds], check=True, stdout=subprocess.PIPE, timeout=300)
    root = next(MACHINE_FOLDER.glob("root-*"))
    (root / "root").chmod(0o711)  # the interpreter may be bound in below it
    try:
        booted = Machine(root, str(MACHINE_FOLDER / "bin" / "msh"))
        booted.run("rm", "-rf", *_LEFT_BY_JOBD)  # of a run that was cut short
        yield booted
    finally:
        subprocess.run([SERVICE, "stop", MACHINE_FOLDER], check=True, timeout=120)


@pytest.fixture
def system_service(machine: Machine) -> Iterator[Machine]:
    """The machine with the system's daemon started."""
    machine.write("/etc/jobd/jobd.toml", "")
    options = "--state-dir /var/lib/jobd --socket /run/jobd/jobd.sock"
    machine.install("systemd", "/etc/systemd/system", options, "2s")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "jobd.service")
    try:
        yield machine
    finally:
        machine.jobd("shutdown", "--terminate-jobs", check=False)
        machine.run("systemctl", "stop", "jobd.socket", "jobd.service", check=False)
        machine.run("systemctl", "reset-failed", "jobd.socket", "jobd.service", check=False)
        # A keeper that still looks for leftovers would take the folder of the next one's keeper with it.
        eventually(lambda: not machine.keepers(), "the keeper ends")
        machine.run("rm", "-rf", *_LEFT_BY_JOBD)


@pytest.fixture
def user(machine: Machine) -> Iterator[str]:
    """A user of the machine who lingers, so that there is a service manager of theirs."""
    name = "worker"
    machine.run("useradd", "--create-home", name)
    machine.run("loginctl", "enable-linger", name)
    uid = machine.run("id", "-u", name)
    active = f"user@{uid}.service"
    eventually(lambda: machine.property(active, "ActiveState") == "active", "the user's manager runs", 30)
    try:
        yield name
    finally:
        machine.run("loginctl", "disable-linger", name)
        machine.run("systemctl", "stop", active)
        machine.run("userdel", "--remove", name, check=False)
