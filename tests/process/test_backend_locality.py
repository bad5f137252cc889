"""Which paths are local, told without touching those that are not."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobd.backends.process.interpreters import interpreter
from jobd.backends.process.locality import Locality, Mounts

LINE = "36 35 98:0 / {place} rw,noatime - {kind} source rw\n"

Make = Callable[..., Locality]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Make]:
    """A locality that sees mounts of a test's choice: a place and a type each."""
    made: list[Mounts] = []

    def with_mounts(*mounts: tuple[str, str]) -> Locality:
        table = Mounts()
        made.append(table)
        lines = "".join(LINE.format(place=place, kind=kind) for place, kind in (("/", "ext4"), *mounts))
        path = tmp_path / f"mountinfo{len(made)}"
        path.write_text(lines)
        table._file.close()
        table._file = path.open("rb", buffering=0)
        table._read()
        return Locality(table)

    yield with_mounts
    for table in made:
        table.close()


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every path that lstat was called for."""
    seen: list[bytes] = []
    real = os.lstat

    def lstat(path: bytes) -> os.stat_result:
        seen.append(path)
        return real(path)

    monkeypatch.setattr(os, "lstat", lstat)
    return seen


def test_local_files_folders_and_names_yet_to_be(make: Make, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    locality, here = make(), os.fsencode(tmp_path)
    assert locality.is_folder(here)
    assert not locality.is_folder(here + b"/file")
    assert locality.is_input(here + b"/file")
    assert locality.is_output(here + b"/file")
    assert locality.is_output(here + b"/new")
    assert not locality.is_input(here + b"/new")
    assert not locality.is_input(here + b"/fifo")
    assert not locality.is_output(here + b"/fifo")
    assert not locality.is_output(here + b"/no/new")
    assert locality.is_input(b"/dev/null")
    assert not locality.is_output(b"relative")


@pytest.mark.parametrize("kind", ["nfs4", "fuse.sshfs", "fuse", "autofs", "proc", "9p", "cifs", "unheard-of"])
def test_what_is_mounted_from_elsewhere_is_never_touched(
    make: Make, tmp_path: Path, touched: list[bytes], kind: str
) -> None:
    remote = tmp_path / "remote"
    (remote / "sub").mkdir(parents=True)
    (remote / "sub" / "file").touch()
    locality = make((str(remote), kind))
    path = os.fsencode(remote)
    assert not locality.is_folder(path)
    assert not locality.is_folder(path + b"/sub/..")
    assert not locality.is_input(path + b"/sub/file")
    assert not locality.is_output(path + b"/new")
    assert locality.program(path + b"/sub/file", b"/bin", b"/") is None
    assert locality.program(b"true", path + b"/sub:/bin", b"/") is None
    assert not [one for one in touched if one.startswith(path)]


def test_links_are_followed_by_hand(make: Make, tmp_path: Path, touched: list[bytes]) -> None:
    remote = tmp_path / "remote"
    remote.mkdir()
    (tmp_path / "absolute").symlink_to(remote)
    (tmp_path / "relative").symlink_to("absolute")
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "file").touch()
    (tmp_path / "good").symlink_to("./good2")
    (tmp_path / "good2").symlink_to(tmp_path / "file")
    locality, here = make((str(remote), "nfs")), os.fsencode(tmp_path)
    assert not locality.is_folder(here + b"/relative")
    assert not locality.is_output(here + b"/relative/new")
    assert not locality.is_input(here + b"/round")
    assert locality.is_input(here + b"/good")
    assert not [one for one in touched if one.startswith(os.fsencode(remote))]


def test_a_local_mount_below_a_local_one(make: Make, tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    locality = make((str(tmp_path / "a b").replace(" ", "\\040"), "tmpfs"))
    assert locality.is_folder(os.fsencode(tmp_path / "a b"))


def test_a_remote_root_makes_everything_remote(make: Make) -> None:
    assert not make(("/", "nfs")).is_folder(b"/tmp")


def test_a_new_mount_is_noticed(make: Make, tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    locality = make()
    assert locality.is_folder(os.fsencode(tmp_path / "place"))
    mounts = locality._mounts
    mounts._types[os.fsencode(tmp_path / "place")] = b"nfs"
    mounts.generation += 1
    locality.refresh()
    assert not locality.is_folder(os.fsencode(tmp_path / "place"))


def test_the_real_table_is_read() -> None:
    mounts = Mounts()
    try:
        assert mounts.type_at(b"/") is not None
        assert mounts.type_at(b"/proc") == b"proc"
    finally:
        mounts.close()


def test_a_program_is_looked_up_as_by_execvp(make: Make, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "two" / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "two" / "tool").chmod(0o755)
    locality = make()
    one, two = os.fsencode(tmp_path / "one"), os.fsencode(tmp_path / "two")
    assert locality.program(b"tool", one + b":/no-such:" + two, b"/") == two + b"/tool"
    assert locality.program(b"tool", b"relative:" + two, b"/") is None
    assert locality.program(b"./tool", b"", two) == two + b"/./tool"
    assert locality.program(b"./tool", b"", one) is None
    assert locality.program(b"none", two, b"/") is None


def test_an_interpreter_from_elsewhere_makes_a_program_remote(make: Make, tmp_path: Path, touched: list[bytes]) -> None:
    remote = tmp_path / "remote"
    remote.mkdir()
    (tmp_path / "script").write_text(f"#! {remote}/python -u\nprint()\n")
    (tmp_path / "script").chmod(0o755)
    assert make((str(remote), "nfs")).program(os.fsencode(tmp_path / "script"), b"", b"/") is None
    assert not [one for one in touched if one.startswith(os.fsencode(remote))]


def test_interpreters(tmp_path: Path) -> None:
    def of(data: bytes) -> bytes | None:
        (tmp_path / "program").write_bytes(data)
        return interpreter(os.fsencode(tmp_path / "program"))

    assert of(b"#!/bin/sh -e\n") == b"/bin/sh"
    assert of(b"#! \t/usr/bin/env python\n") == b"/usr/bin/env"
    assert of(b"#!\n") is None
    assert of(b"") is None
    assert of(b"\x7fELF\x02\x01") is None
    assert of(b"echo no magic\n") is None
    header = b"\x7fELF\x02\x01".ljust(32, b"\0") + struct.pack("<Q", 64) + b"\0" * 14 + struct.pack("<HH", 56, 1)
    interp = struct.pack("<IIQQQQQQ", 3, 4, 120, 0, 0, 7, 7, 1)
    assert of(header.ljust(64, b"\0") + interp + b"/lib/x\0") == b"/lib/x"
    assert of(header.ljust(64, b"\0") + struct.pack("<IIQQQQQQ", 1, 4, 120, 0, 0, 7, 7, 1)) == b""
    assert interpreter(os.fsencode(os.path.realpath(sys.executable)))
