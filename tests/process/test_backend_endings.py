"""How a process ended that is not the daemon's child, whose zombies are reaped, and what journals decide."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobd.backends.base import EndedSeen, RefusedSeen
from jobd.backends.process import exits, recovery
from jobd.backends.process.exits import how_it_ended
from jobd.backends.process.keeper.tree import look
from jobd.backends.process.orphans import Orphans, become_subreaper
from jobd.backends.process.recovery import Boot, Found, Identity, Past
from jobd.model.ids import JobId
from jobd.model.job import Tasks
from jobd.model.states import JobState
from jobd.model.status import Active, Exited, NotStarted, Signalled, Unknown, Waiting

BOOT = Boot("this", 1000.0)


@pytest.fixture
def foster() -> Iterator[subprocess.Popen[bytes]]:
    """A parent that starts what it reads, says its pid, and reaps only when told to."""
    program = (
        "import os, subprocess, sys\n"
        "for line in sys.stdin:\n"
        "    if line == 'reap\\n': child.wait(); print('done', flush=True); continue\n"
        "    child = subprocess.Popen(['sh', '-c', line], start_new_session=True); print(child.pid, flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        yield process
        process.kill()


def say(foster: subprocess.Popen[bytes], line: str) -> bytes:
    assert foster.stdin is not None and foster.stdout is not None
    foster.stdin.write(line.encode() + b"\n")
    foster.stdin.flush()
    return foster.stdout.readline()


def ended(pid: int) -> tuple[int, range]:
    """A pidfd that says that the process has ended, and its start tick."""
    descriptor = os.pidfd_open(pid)
    seen = look(pid)
    assert seen is not None
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    assert poll.poll(10_000)
    return descriptor, range(seen.tick, seen.tick + 1)


@pytest.mark.parametrize(("script", "outcome"), [("exit 7", Exited(7)), ("kill -9 $$", Signalled("SIGKILL"))])
def test_a_zombie_of_anothers_tells_how_it_ended(foster: subprocess.Popen[bytes], script: str, outcome: object) -> None:
    pid = int(say(foster, script))
    descriptor, ticks = ended(pid)
    assert how_it_ended(pid, descriptor, ticks)[0] == outcome
    os.close(descriptor)


def test_a_zombie_with_another_start_tick_tells_nothing(
    foster: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exits, "_REAPED_WITHIN", 10)
    pid = int(say(foster, "exit 7"))
    descriptor, ticks = ended(pid)
    assert how_it_ended(pid, descriptor, range(ticks.start + 500, ticks.stop + 500))[0] == Unknown()
    os.close(descriptor)


def test_a_reaped_one_tells_it_by_its_pidfd_or_not_at_all(foster: subprocess.Popen[bytes]) -> None:
    pid = int(say(foster, "exit 7"))
    descriptor, ticks = ended(pid)
    assert say(foster, "reap") == b"done\n"
    version = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))
    assert how_it_ended(pid, descriptor, ticks)[0] in ((Exited(7),) if version >= (6, 15) else (Exited(7), Unknown()))
    os.close(descriptor)


def test_a_child_tells_its_parent_with_usage() -> None:
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 3"], {})
    descriptor, ticks = ended(pid)
    outcome, usage = how_it_ended(pid, descriptor, ticks)
    assert outcome == Exited(3)
    assert usage.user_time is not None and usage.max_rss
    os.close(descriptor)


def test_orphans_are_reaped_and_the_status_of_a_command_is_never_stolen() -> None:
    become_subreaper()
    known: set[int] = set()
    orphans = Orphans(lambda: known, lambda: True)
    own = subprocess.Popen(["sh", "-c", "exit 41"])
    marked = subprocess.Popen(["sh", "-c", "exit 42"], start_new_session=True)
    known.add(marked.pid)
    mother = subprocess.run(["sh", "-c", "setsid sh -c 'exit 9' >&2 & echo $!"], stdout=subprocess.PIPE, check=True)
    orphan = int(mother.stdout)
    for pid in (own.pid, marked.pid, orphan):
        os.close(ended(pid)[0])
    orphans.reap()
    assert look(orphan) is None
    assert (own.wait(), marked.wait()) == (41, 42)


def test_nothing_is_reaped_while_a_keeper_is_being_buried() -> None:
    quiet = False
    orphans = Orphans(set, lambda: quiet)
    child = os.posix_spawn("/bin/true", ["true"], {}, setsid=True)
    os.close(ended(child)[0])
    orphans.reap()
    assert look(child) is not None
    quiet = True
    orphans.reap()
    assert look(child) is None


def waiting(cause: str | None = None) -> Tasks:
    return Tasks(job=4, attempt=2, status=Waiting(JobState.QUEUED, granted_to="1-1"), cause=cause)


def active(at: float = 2000.0) -> Tasks:
    return Tasks(job=4, attempt=2, status=Active(JobState.RUNNING, "77", at, granted_to="1-1"))


LEADER = Identity(77, 5, 5, 0.05)


def decide(past: Past | None, tasks: Tasks, *, rebooted: bool = False, leader: Identity | None = None) -> object:
    return recovery.unfinished(past, tasks, rebooted=rebooted, now=5.0, leader=leader)


def test_what_was_never_begun_comes_back() -> None:
    assert decide(None, waiting()) == RefusedSeen(JobId(4), 2)
    assert decide(Past("t"), waiting(), rebooted=True) == RefusedSeen(JobId(4), 2)


def test_what_was_perhaps_begun_never_starts_again() -> None:
    result = decide(Past("t", starting=True), waiting())
    assert isinstance(result, EndedSeen) and result.outcome == Unknown() and result.sub_state is None


def test_what_runs_is_followed_with_its_cause() -> None:
    assert decide(None, active(), leader=LEADER) == Found(JobId(4), 2, LEADER, None)
    assert decide(Past("t", cause="deadline"), active(), leader=LEADER) == Found(JobId(4), 2, LEADER, "deadline")
    assert decide(None, waiting("terminated"), leader=LEADER) == Found(JobId(4), 2, LEADER, "terminated")


def test_what_ended_is_told_already() -> None:
    assert decide(Past("t", ended=True), active()) is None


def test_a_reboot_and_a_loss_are_told_apart() -> None:
    lost, rebooted = decide(None, active()), decide(None, active(), rebooted=True)
    assert isinstance(lost, EndedSeen) and lost.sub_state is None
    assert isinstance(rebooted, EndedSeen) and rebooted.sub_state == "node-rebooted"


def test_when_a_machine_was_rebooted() -> None:
    assert recovery.rebooted_since("another", active(), BOOT)
    assert not recovery.rebooted_since("this", active(1.0), BOOT), "a wall clock that was set changes no identity"
    assert recovery.rebooted_since(None, active(999.0), BOOT)
    assert not recovery.rebooted_since(None, active(1001.0), BOOT)
    assert not recovery.rebooted_since(None, waiting(), BOOT)


def test_a_journal_is_put_together_by_attempt() -> None:
    started = {"k": "started", "pid": 7, "lo": 1, "hi": 2, "at": 3.0, "boot": 4.0, "x": False}
    boot, pasts = recovery.replay(
        [
            {"k": "keeper", "boot": "b"},
            {"k": "starting", "t": "a-1.0-1"},
            started | {"t": "a-1.0-1"},
            {"k": "executed", "t": "a-1.0-1"},
            {"k": "starting", "t": "a-2.0-1"},
            {"k": "revoked", "t": "a-2.0-1"},
            {"k": "cause", "t": "a-1.0-1", "cause": "time-limit"},
        ]
    )
    assert boot == "b"
    assert pasts.keys() == {"a-1.0-1"}
    past = pasts["a-1.0-1"]
    assert (past.starting, past.ended, past.cause, past.identity) == (True, False, "time-limit", Identity(7, 1, 2, 4.0))
    assert [type(seen).__name__ for seen in recovery.told(past, "1-1", "here")] == ["StartedSeen", "StartedSeen"]


def test_outcomes_of_records() -> None:
    record = {"k": "ended", "t": "a-1.0-1", "pid": 7, "at": 1.0, "wall": 2.0, "freed": True}
    record |= {"ut": 0.1, "st": 0.2, "rss": None, "ib": 0, "ob": 0}
    past = Past("a-1.0-1")
    for end in (
        {"status": 3},
        {"sig": 9, "core": True},
        {"sig": 40, "core": False},
        {"step": "exec", "errno": "ENOENT"},
    ):
        past.records.append(record | end)
    outcomes = [one.outcome for one in recovery.told(past, "k", "here") if isinstance(one, EndedSeen)]
    realtime = Signalled(f"SIGRTMIN+{40 - signal.SIGRTMIN}")
    assert outcomes == [Exited(3), Signalled("SIGKILL", True), realtime, NotStarted("exec", "ENOENT")]


def test_a_pid_counts_only_with_its_start_tick_and_in_its_boot(tmp_path: Path) -> None:
    seen = look(os.getpid())
    assert seen is not None
    own = Identity(os.getpid(), seen.tick, seen.tick, time.time())
    anothers = Identity(os.getpid(), seen.tick + 300, seen.tick + 300, time.time())
    assert recovery.find_leader(Past("t", identity=own), "t", same_boot=True) is own
    assert recovery.find_leader(Past("t", identity=own), "t", same_boot=False) is None
    assert recovery.find_leader(Past("t", identity=anothers), "t", same_boot=True) is None
    assert recovery.find_leader(None, "no-such-token", same_boot=True) is None
