"""Where there is no systemd, or it says no, a process stays where it is; tests/system has the real thing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jobd import scope
from tests.helpers.needs import needs_root

Busctl = Callable[[str], Path]


@pytest.fixture
def busctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Busctl:
    """A booted systemd whose busctl is a script; what it was called with is in the file that is returned."""

    def make(script: str) -> Path:
        called = tmp_path / "called"
        program = tmp_path / "busctl"
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {called}\n{script}\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setattr(scope, "_BOOTED", tmp_path)
        monkeypatch.setattr(scope, "_WITHIN", 0.05)
        return called

    return make


def test_without_systemd_there_is_nobody_to_ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(scope, "_BOOTED", tmp_path / "none")
    monkeypatch.setenv("PATH", "")
    assert scope.own_scope(os.getpid(), "jobd-test") is None


def test_a_user_who_does_not_linger_stays_in_the_session(
    busctl: Busctl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    called = busctl("exit 1")
    monkeypatch.setattr(scope, "_LINGER", tmp_path / "linger")
    monkeypatch.setattr(os, "getuid", lambda: 1)
    assert scope.own_scope(os.getpid(), "jobd-test") is None
    assert not called.exists()


def test_a_user_whom_nobody_knows_does_not_linger(busctl: Busctl, monkeypatch: pytest.MonkeyPatch) -> None:
    called = busctl("exit 1")
    monkeypatch.setattr(os, "getuid", lambda: 64999)
    assert scope.own_scope(os.getpid(), "jobd-test") is None
    assert not called.exists()


@needs_root
def test_a_refusal_is_told_in_systemds_words(busctl: Busctl) -> None:
    called = busctl("echo 'Call failed: Access denied' >&2; exit 1")
    assert scope.own_scope(4711, "jobd-test") == "Call failed: Access denied"
    words = called.read_text().splitlines()
    assert words[0] == "--system"
    assert "jobd-test-4711.scope" in words


@needs_root
def test_a_process_that_was_not_moved_is_told(busctl: Busctl) -> None:
    busctl("exit 0")
    why = scope.own_scope(os.getpid(), "jobd-test")
    assert why == f"jobd-test-{os.getpid()}.scope was started without process {os.getpid()}"


@needs_root
def test_a_bus_that_hangs_holds_nobody_up(busctl: Busctl) -> None:
    busctl("exec sleep 60")
    assert "timed out" in str(scope.own_scope(os.getpid(), "jobd-test"))


@needs_root
def test_without_busctl_the_process_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(scope, "_BOOTED", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "busctl" in str(scope.own_scope(os.getpid(), "jobd-test"))
