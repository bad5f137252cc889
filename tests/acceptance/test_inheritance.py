"""A job inherits nothing of daemon or keeper: it has what its caller had, or what is documented."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeDaemon
from tests.helpers.daemon import Daemon

REPORT = r"""
import json, os, resource
status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
umask = os.umask(0)
print(json.dumps({
    "ignored": status["SigIgn"].strip(), "blocked": status["SigBlk"].strip(), "umask": umask, "cwd": os.getcwd(),
    "descriptors": sorted(os.listdir("/proc/self/fd"))[:3], "count": len(os.listdir("/proc/self/fd")),
    "nice": os.getpriority(os.PRIO_PROCESS, 0), "oom": open("/proc/self/oom_score_adj").read().strip(),
    "affinity": len(os.sched_getaffinity(0)), "files": resource.getrlimit(resource.RLIMIT_NOFILE),
    "session": os.getsid(0) == os.getpid(), "names": sorted(os.environ), "value": os.environ.get("MINE"),
}))
"""


def report(daemon: Daemon, *options: str, cwd: Path | None = None, **environ: str) -> dict[str, Any]:
    """What a job sees of itself."""
    done = daemon.jobd("run", *options, "--", "/usr/bin/python3", "-S", "-c", REPORT, cwd=cwd, environ=environ)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def assert_clean(found: dict[str, Any]) -> None:
    """Nothing of the daemon's start is there.

    Python itself ignores SIGPIPE and SIGXFSZ, and glibc's posix_spawn its own two signals, 32 and 33.
    """
    own = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1) | 1 << 31 | 1 << 32
    assert int(found["ignored"], 16) & ~own == 0
    assert int(found["blocked"], 16) == 0
    assert found["count"] == 4, "stdin, stdout, stderr and the listing itself"
    assert found["oom"] == "0"
    assert found["affinity"] == os.cpu_count()
    assert found["session"]
    assert "NOTIFY_SOCKET" not in found["names"]
    assert "JOBD_CRASH_AT" not in found["names"]


def test_from_a_plain_start(daemon: Daemon, tmp_path: Path) -> None:
    found = report(daemon, cwd=tmp_path, MINE="1")
    assert_clean(found)
    assert (found["cwd"], found["value"]) == (str(tmp_path), "1")
    assert found["files"][0] == 1024 or found["files"][0] == _own_limit()


def _own_limit() -> int:
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_from_a_start_with_everything_odd(make_daemon: MakeDaemon) -> None:
    """nohup ignores SIGHUP, a shell's ``&`` SIGINT and SIGQUIT; masks, nice and affinity come along, too."""
    daemon = make_daemon()
    wrapper = (
        "import os, signal, sys;"
        "[signal.signal(n, signal.SIG_IGN) for n in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)];"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGCHLD]);"
        "os.sched_setaffinity(0, [0]); os.umask(0o137); os.dup2(2, 99, inheritable=True);"
        "os.execv(sys.executable, [sys.executable, '-m', 'jobd', *sys.argv[1:]])"
    )
    environ = {
        **os.environ,
        "JOBD_STATE_DIR": str(daemon.state_dir),
        "JOBD_CONFIG": str(daemon.state_dir / "jobd.toml"),
    }
    serving = subprocess.Popen(
        [sys.executable, "-c", wrapper, "serve", "--state-dir", str(daemon.state_dir)],
        env=environ,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        found = report(daemon, JOBD_NO_AUTOSTART="0")
        assert_clean(found)
    finally:
        serving.kill()
        serving.wait()


@pytest.mark.parametrize(("options", "names"), [(["--env-mode", "none"], set()), (["--env-mode", "MINE"], {"MINE"})])
def test_the_environment_that_is_asked_for(daemon: Daemon, options: list[str], names: set[str]) -> None:
    found = report(daemon, *options, MINE="1", OTHER="2")
    told = {name for name in found["names"] if name.startswith(("JOB_", "JOBD_"))}
    assert set(found["names"]) - told - {"LC_CTYPE"} == names
    assert told == {"JOB_ID", "JOBD_JOB_ID", "JOBD_ATTEMPT", "JOBD_SESSION", "JOBD_QUEUE", "JOBD_TOKEN"}


def test_from_the_library_a_job_gets_home_and_a_minimal_environment(daemon: Daemon) -> None:
    template = {"remote_command": "/usr/bin/python3", "args": ["-S", "-c", REPORT]}
    (row,) = daemon.request("submit", {"templates": [template]})["jobs"]
    assert daemon.jobd("wait", row["job_id"]).returncode == 0
    found = json.loads(daemon.jobd("logs", row["job_id"]).stdout)
    assert_clean(found)
    assert found["cwd"] == os.path.expanduser("~")
    assert found["umask"] == 0o022
    assert {"HOME", "USER", "LOGNAME", "SHELL", "LANG", "PATH"} <= set(found["names"])


def test_nice_and_limits_that_are_asked_for(daemon: Daemon) -> None:
    script = (
        "import os, resource; print(os.getpriority(os.PRIO_PROCESS, 0), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    template = {
        "remote_command": "/usr/bin/python3",
        "args": ["-c", script],
        "nice": 5,
        "resource_limits": {"OPEN_FILES": 77},
    }
    (row,) = daemon.request("submit", {"templates": [template]})["jobs"]
    assert daemon.jobd("wait", row["job_id"]).returncode == 0
    assert daemon.jobd("logs", row["job_id"]).stdout == b"5 77 77\n"
