"""Reads from one file and exits: run as a process of its own, so that what hangs is this process and nothing else.

Says ``+`` and the data, or ``-`` and why not.
"""

import sys
from os.path import abspath, dirname

sys.path.insert(0, dirname(dirname(dirname(dirname(abspath(__file__))))))


def main(what: str, number: str, path: str) -> None:
    """Answer one question."""
    import os

    from jobd.backends.process.blocks import read_chunk, tail_offset

    raw = os.fsencode(path)
    try:
        data = read_chunk(raw, int(number)) if what == "read" else str(tail_offset(raw, int(number))).encode()
    except OSError as error:
        sys.stdout.buffer.write(b"-" + (error.strerror or "").encode())
        return
    sys.stdout.buffer.write(b"+" + data)


if __name__ == "__main__":
    main(*sys.argv[1:])
