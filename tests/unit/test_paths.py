"""Where state, socket and configuration are found, and that folders are private from the first instant."""

from __future__ import annotations

import os
import pwd
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobd import paths
from jobd.model.errors import DeniedByDrms, DrmCommunication
from tests.helpers.needs import needs_root


@pytest.fixture
def no_system_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(paths, "SYSTEM_CONFIG", tmp_path / "no-such-file")


@pytest.fixture
def system_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "jobd.toml").touch()
    monkeypatch.setattr(paths, "SYSTEM_CONFIG", tmp_path / "jobd.toml")


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def mounted(monkeypatch: pytest.MonkeyPatch, *mounts: tuple[Path, str]) -> None:
    table = [("/", "ext4"), *((str(point), kind) for point, kind in mounts)]
    monkeypatch.setattr(paths, "_mounts", lambda: iter(table))


class TestFind:
    def test_the_option_wins(self, system_install: None) -> None:
        place = paths.find({"JOBD_SOCKET": "/a", "JOBD_STATE_DIR": "/b"}, "/s/run/jobd.sock")
        assert place == paths.Place(Path("/s"), Path("/s/run/jobd.sock"), system=False, autostart=True)

    def test_a_socket_elsewhere_is_never_autostarted(self, system_install: None) -> None:
        place = paths.find({"JOBD_SOCKET": "/tmp/x", "JOBD_STATE_DIR": "/b"})
        assert (place.socket, place.autostart) == (Path("/tmp/x"), False)

    def test_the_state_folder_wins_over_the_system(self, system_install: None) -> None:
        place = paths.find({"JOBD_STATE_DIR": "/b"})
        assert place == paths.Place(Path("/b"), Path("/b/run/jobd.sock"), system=False, autostart=True)

    def test_a_system_install_is_never_replaced(self, system_install: None) -> None:
        place = paths.find({"HOME": "/home/u"})
        assert place == paths.Place(Path("/var/lib/jobd"), Path("/run/jobd/jobd.sock"), system=True, autostart=False)

    def test_the_system_state_folder_by_name_is_the_system(self, no_system_install: None) -> None:
        assert paths.find({"JOBD_STATE_DIR": "/var/lib/jobd/"}) == paths.SYSTEM
        assert paths.for_daemon({}, "/var/lib/jobd") == paths.SYSTEM

    def test_ones_own(self, no_system_install: None, monkeypatch: pytest.MonkeyPatch) -> None:
        mounted(monkeypatch)
        assert paths.find({"HOME": "/home/u"}).state_dir == Path("/home/u/.local/state/jobd")
        assert paths.find({"HOME": "/home/u", "XDG_STATE_HOME": "/s"}).state_dir == Path("/s/jobd")

    def test_a_relative_xdg_value_is_ignored(self, no_system_install: None, monkeypatch: pytest.MonkeyPatch) -> None:
        mounted(monkeypatch)
        place = paths.find({"HOME": "/home/u", "XDG_STATE_HOME": "rel"})
        assert place.state_dir == Path("/home/u/.local/state/jobd")

    def test_without_home_the_password_file_says(
        self, no_system_install: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        entry = SimpleNamespace(pw_dir="/home/of-entry")
        monkeypatch.setattr(pwd, "getpwuid", lambda uid: entry)
        assert paths.find({}) == paths.find({"HOME": "/home/of-entry"})

    def test_a_user_whom_nobody_knows_is_told_what_to_set(
        self, no_system_install: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
        with pytest.raises(DrmCommunication, match="has no home") as refused:
            paths.find({})
        assert refused.value.hint == "set HOME or JOBD_STATE_DIR"

    def test_a_network_home_is_left_for_a_local_folder(
        self, no_system_install: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mounted(monkeypatch, (Path("/home"), "nfs4"))
        place = paths.find({"HOME": "/home/u"})
        assert place.state_dir == Path(f"/var/tmp/jobd-{os.getuid()}-{socket.gethostname()}")
        assert place.note is not None
        assert "nfs4" in place.note
        assert place == paths.for_daemon({"HOME": "/home/u"})

    @needs_root
    def test_only_roots_daemon_is_the_systems(self, system_install: None) -> None:
        assert paths.for_daemon({}) == paths.SYSTEM


class TestConfigPath:
    own = paths.Place(Path("/s"), Path("/s/run/jobd.sock"), system=False, autostart=True)

    def test_option_then_environment(self) -> None:
        assert paths.config_path({"JOBD_CONFIG": "/e"}, "/o", self.own) == Path("/o")
        assert paths.config_path({"JOBD_CONFIG": "/e"}, None, self.own) == Path("/e")

    def test_by_place(self) -> None:
        assert paths.config_path({}, None, paths.SYSTEM) == paths.SYSTEM_CONFIG
        assert paths.config_path({"HOME": "/h"}, None, self.own) == Path("/h/.config/jobd/jobd.toml")
        xdg = {"HOME": "/h", "XDG_CONFIG_HOME": "/c"}
        assert paths.config_path(xdg, None, self.own) == Path("/c/jobd/jobd.toml")


class TestNetworkFilesystem:
    @pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "lustre", "gpfs", "fuse.sshfs", "ceph", "9p"])
    def test_remote(self, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        mounted(monkeypatch, (tmp_path, kind))
        assert paths.network_filesystem(tmp_path / "a" / "b") == kind

    def test_a_mount_of_a_like_name_is_another(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        mounted(monkeypatch, (tmp_path / "ho", "nfs"))
        assert paths.network_filesystem(tmp_path / "home") is None

    def test_local_below_remote(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        mounted(monkeypatch, (tmp_path, "nfs"), (tmp_path / "scratch", "xfs"))
        assert paths.network_filesystem(tmp_path / "scratch" / "x") is None

    @pytest.mark.parametrize("relative", [False, True])
    def test_a_link_into_a_remote_place(self, relative: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        remote = tmp_path / "net"
        (tmp_path / "home").symlink_to("net" if relative else remote)
        mounted(monkeypatch, (remote, "nfs4"))
        assert paths.network_filesystem(tmp_path / "home" / "u") == "nfs4"

    def test_a_circle_of_links_ends(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        mounted(monkeypatch)
        assert paths.network_filesystem(tmp_path / "a") is None

    def test_nothing_remote_is_touched(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        asked: list[str] = []

        def link(path: str) -> None:
            asked.append(path)

        monkeypatch.setattr(paths, "_link", link)
        mounted(monkeypatch, (tmp_path, "nfs"))
        assert paths.network_filesystem(tmp_path / "a" / "b") == "nfs"
        assert not [path for path in asked if path.startswith(str(tmp_path))]

    def test_this_machines_own_table_is_read(self) -> None:
        assert paths.network_filesystem(Path("/proc/self")) is None


class TestPrivateFolder:
    @pytest.mark.parametrize("mask", [0, 0o022, 0o077])
    def test_the_mode_is_right_from_the_first_instant(self, mask: int, tmp_path: Path) -> None:
        with umask(mask):
            paths.ensure_private_folder(tmp_path / "a" / "b" / "c")
        assert [mode_of(tmp_path / name) for name in ("a", "a/b", "a/b/c")] == [0o700] * 3

    def test_a_shared_one_is_never_writable_for_others(self, tmp_path: Path) -> None:
        with umask(0):
            paths.ensure_private_folder(tmp_path / "run", 0o777)
        assert mode_of(tmp_path / "run") == 0o755

    def test_one_that_is_there_is_left_as_it_is(self, tmp_path: Path) -> None:
        (tmp_path / "s").mkdir(mode=0o750)
        paths.ensure_private_folder(tmp_path / "s")
        assert mode_of(tmp_path / "s") == 0o750

    def test_writable_by_others_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "s").mkdir()
        (tmp_path / "s").chmod(0o777)
        with pytest.raises(DeniedByDrms, match="other users can write") as refused:
            paths.ensure_private_folder(tmp_path / "s")
        assert refused.value.hint == f"chmod go-w {tmp_path / 's'}"

    def test_a_link_is_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir(mode=0o700)
        (tmp_path / "s").symlink_to("real")
        with pytest.raises(DeniedByDrms, match="is a link") as refused:
            paths.ensure_private_folder(tmp_path / "s")
        assert str(tmp_path / "real") in str(refused.value.hint)

    def test_a_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "s").touch()
        with pytest.raises(DeniedByDrms, match="is not a folder"):
            paths.ensure_private_folder(tmp_path / "s")

    @needs_root
    def test_someone_elses_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "s").mkdir(mode=0o700)
        os.chown(tmp_path / "s", 65533, 65533)
        with pytest.raises(DeniedByDrms, match="belongs to another user"):
            paths.ensure_private_folder(tmp_path / "s")

    def test_what_can_not_be_made_is_said(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(DrmCommunication, match="can't be made: Not a directory"):
            paths.ensure_private_folder(tmp_path / "file" / "s")


class TestSocketAddress:
    @pytest.mark.parametrize("length", [20, 107, 108, 150])
    def test_bound_and_reached_however_long(self, length: int, state_dir: Path) -> None:
        folder = state_dir / ("d" * max(1, length - len(os.fsencode(state_dir)) - 8))
        folder.mkdir(parents=True)
        path = folder / "s.sock"
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            with paths.socket_address(path) as address:
                server.bind(address)
            server.listen()
            with paths.socket_address(path) as address:
                client.connect(address)
            assert path.is_socket()

    def test_nothing_stays_open(self, state_dir: Path) -> None:
        before = os.listdir("/proc/self/fd")
        with paths.socket_address(state_dir / ("n" * 120)) as address:
            assert address.startswith("/proc/self/fd/")
        assert os.listdir("/proc/self/fd") == before


def test_only_the_standard_library_is_loaded() -> None:
    """Every command line imports it."""
    program = "import sys, jobd.paths; print({'anyio', 'asyncio', 'msgspec', 'json'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
