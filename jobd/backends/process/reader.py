"""Reads from one file and exits: run as a process of its own, so that what hangs is this process and nothing else.

Started as ``reader.py WHAT NUMBER PATH [UID GID GROUPS]`` it becomes that user before it touches the path. It says
``+`` and the data, or ``-`` and why not.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))

from jobd.backends.process.blocks import read_chunk, tail_offset


def main(what: str, number: str, path: str, *identity: str) -> None:
    """Answer one question."""
    raw = os.fsencode(path)
    try:
        if identity:
            _become(*identity)
        data = read_chunk(raw, int(number)) if what == "read" else str(tail_offset(raw, int(number))).encode()
    except OSError as error:
        sys.stdout.buffer.write(b"-" + (error.strerror or "").encode())
        return
    sys.stdout.buffer.write(b"+" + data)


def _become(uid: str, gid: str, groups: str) -> None:
    """Not before the interpreter and its modules were found: the owner need not have access to those."""
    os.setgroups([int(group) for group in groups.split(",") if group])
    os.setgid(int(gid))
    os.setuid(int(uid))


if __name__ == "__main__":
    main(*sys.argv[1:])
