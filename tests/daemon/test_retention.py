"""Finished jobs are forgotten with all that lies in files, and what is kept is left alone."""

from __future__ import annotations

from tests.conftest import MakeDaemon
from tests.helpers.waiting import eventually


def test_beyond_the_count_the_oldest_go_with_their_files(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    daemon.start()
    for number in range(4):
        assert daemon.jobd("run", "-i", "-", "--", "cat", input=b"%d" % number).stdout == b"%d" % number
    running = daemon.submit("--", "sleep", "300")
    inputs = daemon.state_dir / "inputs"
    assert len(list(inputs.iterdir())) == 4
    daemon.stop()
    daemon.configure("[retention]\ncount = 2\n")
    daemon.start()
    eventually(lambda: [job["job_id"] for job in daemon.request("list")["jobs"]] == ["3", "4", running], "two are gone")
    eventually(lambda: len(list(inputs.iterdir())) == 2, "and what was piped into them")
    eventually(
        lambda: sorted(path.name for path in (daemon.state_dir / "jobs" / "0").iterdir()) == ["3", "4", "5"], "files"
    )
    assert daemon.jobd("logs", "3").stdout == b"2"
    assert daemon.jobd("logs", "1").returncode == 3
    assert daemon.submit("--", "true") == "6"
