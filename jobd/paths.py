"""Where the daemon's state, socket and configuration are. Standard library only: every command line asks.

One daemon a state folder, and its socket always in the same place below it, so that cron, su and a second
login find the same daemon (docs/configuration.md, "Where things live").
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from jobd.model.errors import DeniedByDrms, DrmCommunication

SYSTEM_CONFIG = Path("/etc/jobd/jobd.toml")
SOCKET_IN_STATE = Path("run/jobd.sock")

_LONGEST_ADDRESS = 107
_MOST_LINKS = 40
_NETWORK = frozenset(
    "nfs nfs4 cifs smb3 smbfs lustre gpfs beegfs beegfs_nodev ceph glusterfs afs 9p ncpfs ocfs2 gfs2 pvfs2 "
    "orangefs panfs wekafs fuse.sshfs fuse.glusterfs fuse.ceph fuse.s3fs fuse.beegfs fuse.juicefs "
    "fuse.rclone autofs".split()
)


class Place:
    """A daemon's place: its state folder, its socket, and how it was chosen.

    ``system`` is the system's daemon; ``autostart`` whether a client may start it; ``note`` says, for people,
    why the state is not where it would usually be.
    """

    # Written by hand: typing and dataclasses would each cost every command some milliseconds.
    __slots__ = ("autostart", "note", "socket", "state_dir", "system")

    def __init__(
        self, state_dir: Path, socket: Path, *, system: bool, autostart: bool, note: str | None = None
    ) -> None:
        self.state_dir = state_dir
        self.socket = socket
        self.system = system
        self.autostart = autostart
        self.note = note

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self) -> int:
        return hash((self.state_dir, self.socket))


SYSTEM = Place(Path("/var/lib/jobd"), Path("/run/jobd/jobd.sock"), system=True, autostart=False)
"""The system's daemon."""


def find(environ: Mapping[str, str], socket_option: str | None = None) -> Place:
    """The daemon of a client: by option or JOBD_SOCKET, by JOBD_STATE_DIR, the system's, or one's own."""
    named = socket_option or environ.get("JOBD_SOCKET")
    if named:
        return _by_socket(Path(os.path.abspath(named)))
    if environ.get("JOBD_STATE_DIR"):
        return _by_state_dir(environ["JOBD_STATE_DIR"])
    return SYSTEM if _is_system_install() else _default(environ)


def for_daemon(environ: Mapping[str, str], state_dir_option: str | None = None) -> Place:
    """The place of a daemon that is being started. On a system install root's is the system's."""
    named = state_dir_option or environ.get("JOBD_STATE_DIR")
    if named:
        return _by_state_dir(named)
    return SYSTEM if os.getuid() == 0 and _is_system_install() else _default(environ)


def _is_system_install() -> bool:
    """A configuration that is there but may not be looked at counts: never a silent second daemon."""
    try:
        os.stat(SYSTEM_CONFIG)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


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


def _by_state_dir(named: str) -> Place:
    state_dir = Path(os.path.abspath(named))
    return SYSTEM if state_dir == SYSTEM.state_dir else _own(state_dir)


def _own(state_dir: Path, note: str | None = None) -> Place:
    return Place(state_dir, state_dir / SOCKET_IN_STATE, system=False, autostart=True, note=note)


def _default(environ: Mapping[str, str]) -> Place:
    home_state = _xdg(environ, "XDG_STATE_HOME", ".local/state") / "jobd"
    kind = network_filesystem(home_state)
    if kind is None:
        return _own(home_state)
    # Anybody can make a name here first: ensure_private_folder refuses what is not one's own.
    fallback = Path(f"/var/tmp/jobd-{os.getuid()}-{os.uname().nodename}")  # noqa: S108
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

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        # A container's user may have no entry at all.
        raise DrmCommunication(
            f"user {os.getuid()} has no home to keep the state in", hint="set HOME or JOBD_STATE_DIR"
        ) from None


def network_filesystem(path: Path) -> str | None:
    """The type of the network file system that a path leads to; None for a local one.

    Nothing remote is touched, since it may hang: the path is walked part by part, links too, against the
    mount table, and only what lies on local ground is asked whether it is a link.
    """
    mounts = dict(_mounts())
    todo, done, links = list(path.absolute().parts[:0:-1]), "/", 0
    while todo and links <= _MOST_LINKS:
        part = todo.pop()
        done = os.path.dirname(done) if part == ".." else os.path.join(done, part)
        target = None if _filesystem(done, mounts) in _NETWORK else _link(done)
        if target is not None:
            links += 1
            todo += [part for part in reversed(Path(target).parts) if part != "/"]
            done = "/" if target.startswith("/") else os.path.dirname(done)
    kind = _filesystem(done, mounts)
    return kind if kind in _NETWORK else None


def _filesystem(path: str, mounts: Mapping[str, str]) -> str:
    """The type of the innermost mount."""
    while path not in mounts and path != "/":
        path = os.path.dirname(path)
    return mounts.get(path, "")


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def _mounts() -> Iterator[tuple[str, str]]:
    """Mount points and file system types (proc_pid_mountinfo(5)), the topmost of one place last."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            yield _unescape(before.split(" ")[4]), after.split(" ", 1)[0]


def _unescape(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def ensure_private_folder(path: Path, mode: int = 0o700) -> None:
    """Make a folder that only its owner can write, whatever the umask, and from the first instant.

    Folders above it that are missing get mode 0700.

    Raises:
        DeniedByDrms: it is there and belongs to someone else, is a link, or others can write it.
        DrmCommunication: it can't be made.
    """
    try:
        for folder in reversed(path.parents):
            _make(folder, 0o700)
        _make(path, mode & ~0o022)
        found = path.lstat()
    except OSError as error:
        raise DrmCommunication(
            f"the folder {path} can't be made: {os.strerror(error.errno or 0)}",
            hint="choose one with JOBD_STATE_DIR",
        ) from error
    _check_private(path, found)


def _make(folder: Path, mode: int) -> None:
    """Make one folder unless something is there, which mkdir(2) on a read-only file system would not say."""
    try:
        if not os.path.lexists(folder):
            os.mkdir(folder, mode)
            os.chmod(folder, mode)  # a strict umask has taken bits away that were asked for
    except FileExistsError:
        return


def _check_private(path: Path, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise DeniedByDrms(f"{path} is a link", hint=f"name the folder itself: JOBD_STATE_DIR={os.path.realpath(path)}")
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
    """An address to bind or connect to: of more than the kernel's 107 bytes, through the open folder."""
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
