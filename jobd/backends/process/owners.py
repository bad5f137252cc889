"""Who a job runs as: ids, groups and home of its owner."""

from __future__ import annotations

import grp
import os
import pwd

import msgspec

from jobd.model.job import Owner

DEFAULT_PATH = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Account(msgspec.Struct, frozen=True):
    """A user of this machine. ``switch`` is whether the keeper has to become it."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: bytes
    home: bytes
    shell: bytes
    switch: bool

    def minimal_environment(self) -> list[bytes]:
        """What a job has where nothing was captured: HOME, USER, LOGNAME, SHELL, LANG and a default PATH."""
        return [
            b"HOME=" + self.home,
            b"USER=" + self.name,
            b"LOGNAME=" + self.name,
            b"SHELL=" + self.shell,
            b"LANG=C.UTF-8",
            b"PATH=" + DEFAULT_PATH,
        ]


def account(owner: Owner) -> Account:
    """Look an owner up. Blocking: user databases may be on the network."""
    switch = os.getuid() == 0 and owner.uid != 0
    try:
        entry = pwd.getpwuid(owner.uid)
    except KeyError:
        name = os.fsencode(owner.name)
        # Not the daemon's own group, which is root's: a user whom no database knows is in no group but his own.
        gid = owner.uid if switch else os.getgid()
        return Account(owner.uid, gid, (), name, b"/", b"/bin/sh", switch)
    groups = tuple(sorted(_groups(entry.pw_name, entry.pw_gid))) if switch else ()
    home, shell = os.fsencode(entry.pw_dir), os.fsencode(entry.pw_shell or "/bin/sh")
    return Account(owner.uid, entry.pw_gid, groups, os.fsencode(entry.pw_name), home, shell, switch)


def _groups(name: str, gid: int) -> set[int]:
    return {gid, *(group.gr_gid for group in grp.getgrall() if name in group.gr_mem)}
