"""What a test needs and may not find; a skipped test says so."""

from __future__ import annotations

import os

import pytest

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
