"""Which paths are local and plain, found out without touching anything that might hang.

A job may be started the fast way only if its program, working directory and files all lie on local file systems and
are plain files, folders or /dev/null. Each path is walked component by component, links too, against the mount table;
lstat is called on local types only. Blocking, but never for long: it runs in a thread all the same.
"""

from __future__ import annotations

import os
import select
import stat
import time

from jobd.backends.process.interpreters import interpreter

LOCAL = frozenset(
    "ext2 ext3 ext4 xfs btrfs tmpfs ramfs rootfs overlay zfs f2fs bcachefs devtmpfs squashfs erofs jfs reiserfs nilfs2 "
    "iso9660 udf vfat exfat ntfs3 hfsplus".split()
)
_MOST_LINKS = 40
_REMEMBERED = 10_000
_FRESH = 2.0


class Mounts:
    """The mount table of this process, read again when the kernel says that it changed (proc_pid_mountinfo(5))."""

    def __init__(self) -> None:
        self._file = open("/proc/self/mountinfo", "rb", buffering=0)  # noqa: SIM115 (kept open to be polled)
        self._poll = select.poll()
        self._poll.register(self._file, select.POLLERR | select.POLLPRI)
        self._types: dict[bytes, bytes] = {}
        self.generation = 0
        self._read()

    def refresh(self) -> None:
        """Look whether anything was mounted or unmounted."""
        if self._poll.poll(0):
            self._read()

    def _read(self) -> None:
        self._file.seek(0)
        self._types = dict(_mount(line) for line in self._file.read().splitlines())
        self.generation += 1

    def type_at(self, path: bytes) -> bytes | None:
        """The type of the file system mounted exactly at a path."""
        return self._types.get(path)

    def close(self) -> None:
        """Let the table go."""
        self._file.close()


def _mount(line: bytes) -> tuple[bytes, bytes]:
    before, _, after = line.partition(b" - ")
    return before.split(b" ")[4].decode("unicode_escape").encode("latin-1"), after.split(b" ", 1)[0]


class Locality:
    """Answers whether a path is local, and what lies there; remembers folders for a moment."""

    def __init__(self, mounts: Mounts) -> None:
        self._mounts = mounts
        self._folders: dict[bytes, tuple[float, bytes | None]] = {}
        self._programs: dict[tuple[bytes, bytes], tuple[float, bytes | None]] = {}
        self._generation = 0

    def refresh(self) -> None:
        """Before a group of questions: forget everything if the mounts changed."""
        self._mounts.refresh()
        full = max(len(self._folders), len(self._programs)) > _REMEMBERED
        if full or self._generation != self._mounts.generation:
            self._folders.clear()
            self._programs.clear()
            self._generation = self._mounts.generation

    def is_folder(self, path: bytes) -> bool:
        """Whether a path is a local folder."""
        return self._folder(path) is not None

    def is_input(self, path: bytes) -> bool:
        """Whether a path is a local plain file or /dev/null."""
        return path == b"/dev/null" or self._kind(path) == stat.S_IFREG

    def is_output(self, path: bytes) -> bool:
        """Whether a path is a local plain file or /dev/null, or a name in a local folder that nothing has yet."""
        return path == b"/dev/null" or self._kind(path) in (stat.S_IFREG, 0)

    def program(self, name: bytes, search: bytes, cwd: bytes) -> bytes | None:
        """The path of a program, looked up as execvp(3) does; None where that leaves local folders or finds nothing."""
        key = (os.path.join(cwd, name), b"") if b"/" in name else (name, search)
        known = self._programs.get(key)
        if known is None or known[0] < time.monotonic():
            found = self._search(name, search) if key[1] else key[0]
            plain = found is not None and self._executable(found) and self._plain(found)
            known = (time.monotonic() + _FRESH, found if plain else None)
            self._programs[key] = known
        return known[1]

    def _search(self, name: bytes, search: bytes) -> bytes | None:
        for folder in search.split(b":"):
            if not folder.startswith(b"/") or not self._may_look(folder):
                return None
            path = os.path.join(folder, name)
            if self._executable(path):
                return path
        return None

    def _may_look(self, folder: bytes) -> bool:
        """Whether a folder is local, or certainly not there."""
        return self._walk(folder) is not None

    def _plain(self, program: bytes) -> bool:
        """Whether the kernel finds everything else that it needs to execute it on local ground, too."""
        try:
            needed = interpreter(program)
        except OSError:
            return False
        return needed == b"" or (needed is not None and self._kind(needed) == stat.S_IFREG)

    def _executable(self, path: bytes) -> bool:
        return self._kind(path) == stat.S_IFREG and os.access(path, os.X_OK)

    def _kind(self, path: bytes) -> int | None:
        """The file type at a local path, 0 where nothing is, None where it is not local."""
        folder, name = os.path.split(path)
        real = self._folder(folder)
        if real is None or name in (b"", b".", b".."):
            return None
        return self._last(os.path.join(real, name))

    def _last(self, path: bytes) -> int | None:
        if self._mounts.type_at(path) is not None:
            return None
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            return 0
        except OSError:
            return None
        if not stat.S_ISLNK(mode):
            return stat.S_IFMT(mode)
        found = self._walk(path)
        return found[1] if found else None

    def _folder(self, path: bytes) -> bytes | None:
        """The real path of a local folder."""
        known = self._folders.get(path)
        if known is None or known[0] < time.monotonic():
            found = self._walk(path)
            real = found[0] if found and found[1] == stat.S_IFDIR else None
            known = (time.monotonic() + _FRESH, real)
            self._folders[path] = known
        return known[1]

    def _walk(self, path: bytes) -> tuple[bytes, int] | None:
        """The real path and file type (0: nothing there) at the end of a path, None where it leaves local ground."""
        if not path.startswith(b"/") or not self._local(b"/", True):
            return None
        todo, done, links, kind = path.split(b"/")[::-1], b"/", 0, stat.S_IFDIR
        while todo:
            part = todo.pop()
            if part in (b"", b"."):
                continue
            if part == b"..":
                done = os.path.dirname(done)
                continue
            here = os.path.join(done, part)
            if not self._local(here, False):
                return None
            try:
                mode = os.lstat(here).st_mode
            except FileNotFoundError:
                return here, 0
            except OSError:
                return None
            if stat.S_ISLNK(mode):
                links += 1
                if links > _MOST_LINKS:
                    return None
                target = os.readlink(here)
                todo += target.split(b"/")[::-1]
                done = b"/" if target.startswith(b"/") else done
                continue
            done, kind = here, stat.S_IFMT(mode)
        return done, kind

    def _local(self, path: bytes, root: bool) -> bool:
        """Whether what is mounted at a path, if anything, is local."""
        kind = self._mounts.type_at(path)
        return (kind is None and not root) or (kind is not None and kind.decode("ascii", "replace") in LOCAL)
