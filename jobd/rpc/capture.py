"""What a job gets from its submitter without words: environment, working directory, umask, and piped input."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec

from jobd.model.errors import InvalidArgument, OutOfResource
from jobd.model.template import Captured, JobTemplate, Text, to_bytes
from jobd.rpc.context import Context

INPUTS = "inputs"
"""The folder, in the state folder, of input that was piped into ``-i -``."""


def fill_in(template: JobTemplate, captured: Captured, input_path: str | None) -> JobTemplate:
    """The template with captured values where it says nothing itself."""
    changes: dict[str, object] = {}
    if template.working_directory is None and captured.working_directory is not None:
        changes["working_directory"] = captured.working_directory
    if template.umask is None and captured.umask is not None:
        changes["umask"] = captured.umask
    if template.input_path is None and input_path is not None:
        changes["input_path"] = input_path
    return msgspec.structs.replace(template, **changes) if changes else template


class Environments:
    """The environments that one request's jobs inherit, each put together once."""

    def __init__(self, captured: Captured) -> None:
        self._captured = captured
        self._by_mode: dict[str, tuple[str, bytes] | None] = {}

    def of(self, template: JobTemplate) -> tuple[str, bytes] | None:
        """Digest and content of what a job of this template inherits; None where nothing was captured.

        Raises:
            InvalidArgument: an entry has a NUL byte.
        """
        mode = template.env_mode or "all"
        if mode not in self._by_mode:
            self._by_mode[mode] = self._content(mode)
        return self._by_mode[mode]

    def _content(self, mode: str) -> tuple[str, bytes] | None:
        if self._captured.environment is None:
            return None
        content = b"\0".join(choose(self._captured.environment, mode))
        return hashlib.sha256(content).hexdigest(), content


def choose(entries: Iterable[Text], mode: str) -> list[bytes]:
    """The entries that a mode lets through: ``all``, ``none``, or names separated by commas.

    Raises:
        InvalidArgument: an entry has a NUL byte.
    """
    raw = [to_bytes(entry) for entry in entries]
    if any(b"\0" in entry for entry in raw):
        raise InvalidArgument("the environment has a NUL byte in it")
    raw = [entry for entry in raw if b"=" in entry[1:]]
    if mode == "all":
        return raw
    names = set() if mode == "none" else {os.fsencode(name.strip()) for name in mode.split(",")}
    return [entry for entry in raw if entry.split(b"=", 1)[0] in names]


@asynccontextmanager
async def stored_input(context: Context, captured: Captured) -> AsyncIterator[str | None]:
    """Piped input, on disk before the job is committed; gone again if the job is not taken."""
    if captured.input is None:
        yield None
        return
    path = context.state_dir / INPUTS / uuid.uuid4().hex
    try:
        await anyio.to_thread.run_sync(_write, path, to_bytes(captured.input))
        yield os.fspath(path)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(lambda: path.unlink(missing_ok=True))
        raise


async def drop_stored_input(state_dir: Path, template: JobTemplate) -> None:
    """Delete the piped input of a job that is forgotten."""
    path = template.input_path
    if isinstance(path, str) and Path(path).parent == state_dir / INPUTS:
        await anyio.to_thread.run_sync(lambda: Path(path).unlink(missing_ok=True))


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OutOfResource(f"the input could not be kept: {os.strerror(error.errno or 0)}") from error
