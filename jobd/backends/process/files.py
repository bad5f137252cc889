"""Where a job's input and output lie: placeholders, relative paths, and jobd's own files for what is captured."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from jobd.backends.process.owners import Account
from jobd.model.job import Job, Tasks
from jobd.model.template import JobTemplate, Text, to_bytes

_SHARD = 1000
_NULL = b"/dev/null"
_INDEX = b"$DRMAA2_INDEX$"


class Output(msgspec.Struct, frozen=True):
    """An output file. ``captured``: it is jobd's own, in the state folder."""

    path: bytes
    captured: bool


class Files(msgspec.Struct, frozen=True):
    """All paths of one attempt, absolute. ``stderr`` is None where it is joined to ``stdout``."""

    cwd: bytes
    stdin: bytes
    stdout: Output
    stderr: Output | None


def job_folder(state_dir: Path, job: int) -> Path:
    """The folder of a job's captured output: a thousand jobs share the one above it."""
    return state_dir / "jobs" / str(job // _SHARD) / str(job)


def files_of(state_dir: Path, job: Job, task: int, attempt: int, account: Account) -> Files:
    """The paths of an attempt. Pure."""
    template = job.template
    home = account.home
    folder_named = _replaced(template.working_directory, home, home, task)
    cwd = os.path.join(home, folder_named) if folder_named else home
    stem = f"{task}.{attempt}" if task else str(attempt)
    folder = job_folder(state_dir, job.id)

    def output(path: Text | None, suffix: str) -> Output:
        if path is None:
            return Output(os.fsencode(folder / f"{stem}.{suffix}"), captured=True)
        return Output(os.path.join(cwd, _replaced(path, home, cwd, task)), captured=False)

    stdin = _NULL if template.input_path is None else os.path.join(cwd, _replaced(template.input_path, home, cwd, task))
    stdout, stderr = output(template.output_path, "out"), output(template.error_path, "err")
    joined = template.join_files or (template.error_path is not None and stdout.path == stderr.path)
    return Files(cwd, stdin, stdout, None if joined else stderr)


def truncates(template: JobTemplate, path: Text | None, job: Job, task: int, attempt: int) -> bool:
    """Whether this attempt empties its file: the first one, of an array without placeholder the first task's."""
    if path is None:
        return True
    if template.append_output or attempt > 1:
        return False
    array = job.array
    return array is None or _INDEX in to_bytes(path) or task == array.begin


def _replaced(path: Text | None, home: bytes, cwd: bytes, task: int) -> bytes:
    """A path with DRMAA2's placeholders filled in."""
    if path is None:
        return b""
    raw = to_bytes(path)
    if b"$DRMAA2" not in raw:
        return raw
    raw = raw.replace(b"$DRMAA2_HOME_DIR$", home).replace(b"$DRMAA2_WORKING_DIR$", cwd)
    return raw.replace(_INDEX, str(task).encode())


def attempt_of(tasks: Tasks, attempt: int | None) -> int:
    """The attempt whose output is asked for: the last one unless it is named."""
    return max(1, tasks.attempt) if attempt is None else attempt
