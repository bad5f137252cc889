"""The tests' door for crashes at named points. Standard library only.

With ``JOBD_CRASH_AT=<name>`` in its environment a daemon or keeper kills itself with SIGKILL when it comes to that
point; nothing else ever sets it, and jobs do not inherit it.
"""

from __future__ import annotations

import os
import signal

_WANTED = os.environ.get("JOBD_CRASH_AT")


def crash_point(name: str) -> None:
    """Die here if the tests say so."""
    if name == _WANTED:
        os.kill(os.getpid(), signal.SIGKILL)
