"""Where the daemon's state, socket and configuration are. Standard library only: every command line asks.

One daemon a state folder, and its socket always in the same place below it, so that cron, su and a second login find
the same daemon (docs/architecture.md, "Finding the daemon").
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from jobd.model.errors import DeniedByDrms, DrmCommunication

SYSTEM_CONFIG = Path("/etc/jobd/jobd.toml")
SYSTEM_STATE = Path("/var/lib/jobd")
SYSTEM_SOCKET = Path("/run/jobd/jobd.sock")
SOCKET_IN_STATE = Path("run/jobd.sock")

_LONGEST_ADDRESS = 107
_NETWORK = frozenset(
    "nfs nfs4 cifs smb3 smbfs lustre gpfs beegfs beegfs_nodev ceph glusterfs afs 9p ncpfs ocfs2 gfs2 pvfs2 orangefs "
    "panfs wekafs fuse.sshfs fuse.glusterfs fuse.ceph fuse.s3fs fuse.beegfs fuse.juicefs fuse.rclone autofs".split()
)


class Place(NamedTuple):
    """A daemon's place: its state folder, its socket, and how it was chosen.

    ``system`` is the system's daemon; ``autostart`` whether a client may start it; ``note`` says, for people, why the
    state is not where it would usually be.
    """

    state_dir: Path
    socket: Path
    system: bool
    autostart: bool
    note: str | None = None


def find(environ: Mapping[str, str], socket_option: str | None = None) -> Place:
    """The daemon that a client talks to: by option or JOBD_SOCKET, by JOBD_STATE_DIR, the system's, or one's own."""
    named = socket_option or environ.get("JOBD_SOCKET")
    if named:
        return _by_socket(Path(os.path.abspath(named)))
    if environ.get("JOBD_STATE_DIR"):
        return _own(Path(os.path.abspath(environ["JOBD_STATE_DIR"])))
    if SYSTEM_CONFIG.exists():
        return Place(SYSTEM_STATE, SYSTEM_SOCKET, system=True, autostart=False)
    return _default(environ)


def for_daemon(environ: Mapping[str, str], state_dir_option: str | None = None) -> Place:
    """The place of a daemon that is being started."""
    named = state_dir_option or environ.get("JOBD_STATE_DIR")
    if named:
        return _own(Path(os.path.abspath(named)))
    if os.getuid() == 0 and SYSTEM_CONFIG.exists():
        return Place(SYSTEM_STATE, SYSTEM_SOCKET, system=True, autostart=False)
    return _default(environ)


def config_path(environ: Mapping[str, str], option: str | None, place: Place) -> Path:
    """The configuration file; it need not exist."""
    named = option or environ.get("JOBD_CONFIG")
    if named:
        return Path(os.path.abspath(named))
    if place.system:
        return SYSTEM_CONFIG
    return _xdg(environ, "XDG_CONFIG_HOME", ".config") / "jobd" / "jobd.toml"


def _by_socket(path: Path) -> Place:
    """A socket that was named. Where it lies as a daemon's own does, that daemon can be started."""
    own = path.parts[-2:] == SOCKET_IN_STATE.parts
    return Place(path.parent.parent if own else path.parent, path, system=False, autostart=own)


def _own(state_dir: Path, note: str | None = None) -> Place:
    return Place(state_dir, state_dir / SOCKET_IN_STATE, system=False, autostart=True, note=note)


def _default(environ: Mapping[str, str]) -> Place:
    home_state = _xdg(environ, "XDG_STATE_HOME", ".local/state") / "jobd"
    kind = network_filesystem(home_state)
    if kind is None:
        return _own(home_state)
    fallback = Path(f"/var/tmp/jobd-{os.getuid()}-{socket.gethostname()}")
    return _own(fallback, f"the state is in {fallback}, since {home_state} lies on a network file system ({kind})")


def _xdg(environ: Mapping[str, str], name: str, default: str) -> Path:
    """A base directory by the XDG specification, which says that a relative value is to be ignored."""
    value = environ.get(name, "")
    return Path(value) if value.startswith("/") else _home(environ) / default


def _home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME", "")
    if home.startswith("/"):
        return Path(home)
    import pwd

    return Path(pwd.getpwuid(os.getuid()).pw_dir)


def network_filesystem(path: Path) -> str | None:
    """The type of the network file system that a path lies on, None for a local one. The path is not touched."""
    best, kind = "", ""
    for mount_point, filesystem in _mounts():
        inside = mount_point == "/" or path == Path(mount_point) or str(path).startswith(mount_point + "/")
        # Of mounts one over the other the last is the one that is seen.
        if inside and len(mount_point) >= len(best):
            best, kind = mount_point, filesystem
    return kind if kind in _NETWORK else None


def _mounts() -> Iterator[tuple[str, str]]:
    """Mount points and file system types (proc_pid_mountinfo(5))."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            yield _unescape(before.split(" ")[4]), after.split(" ", 1)[0]


def _unescape(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def ensure_private_folder(path: Path, mode: int = 0o700) -> None:
    """Make a folder that only its owner can write, with the right mode from the first instant, whatever the umask.

    Raises:
        DeniedByDrms: it is there and belongs to someone else, is a link, or others can write it.
        DrmCommunication: it can't be made.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.mkdir(path, mode & ~0o022)
    except FileExistsError:
        pass
    except OSError as error:
        raise DrmCommunication(
            f"the folder {path} can't be made: {os.strerror(error.errno or 0)}", hint="choose one with JOBD_STATE_DIR"
        ) from error
    _check_private(path)


def _check_private(path: Path) -> None:
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise DeniedByDrms(f"{path} is not a folder", hint="remove it, or choose another place with JOBD_STATE_DIR")
    if found.st_uid not in (os.getuid(), 0):
        raise DeniedByDrms(f"{path} belongs to another user", hint="choose another place with JOBD_STATE_DIR")
    if found.st_mode & 0o022:
        raise DeniedByDrms(f"other users can write {path}", hint=f"chmod go-w {path}")
    if not os.access(path, os.W_OK | os.X_OK):
        raise DeniedByDrms(f"{path} can't be written", hint="choose another place with JOBD_STATE_DIR")


@contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """An address to bind or connect to. The kernel takes 107 bytes: a longer one is reached through its open folder."""
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
