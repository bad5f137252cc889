"""What a test needs and may not find; a skipped test says so."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

import pytest

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


@dataclass(frozen=True)
class User:
    """Somebody without rights and without a home."""

    uid: int
    gid: int


def can_run_python_as(user: User) -> bool:
    """Whether a user can reach this interpreter, which may lie in a folder of root's own."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", "import jobd"],
            user=user.uid,
            group=user.gid,
            extra_groups=[],
            cwd="/",
            check=False,
        )
    except PermissionError:
        return False
    return done.returncode == 0
