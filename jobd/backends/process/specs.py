"""From an attempt to the order that the keeper gets. Pure but for what it is told of localities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jobd.backends.base import Attempt
from jobd.backends.process import attributes
from jobd.backends.process.files import Files, Output, files_of, truncates
from jobd.backends.process.locality import Locality
from jobd.backends.process.owners import DEFAULT_PATH, Account
from jobd.model.template import Text, to_bytes
from jobd.model.text import wrap

DEFAULT_UMASK = 0o022
_OWNER_BITS = 0o700

OWN_NAMES = (b"JOBD_TOKEN", b"JOBD_JOB_ID", b"JOBD_TASK_ID", b"JOBD_ATTEMPT", b"JOBD_SESSION", b"JOBD_QUEUE")
"""Variables that a job submitted from within another one must not have from there."""


def environment_entries(content: bytes | None, account: Account) -> list[bytes]:
    """The entries that the jobs of a grant share."""
    if content is None:
        return account.minimal_environment()
    entries = content.split(b"\0") if content else []
    # No process can be given a variable without a name.
    return [entry for entry in entries if entry.find(b"=") > 0 and entry.split(b"=", 1)[0] not in OWN_NAMES]


def additions(attempt: Attempt) -> list[bytes]:
    """The entries of one job: what its template says in words, then what jobd tells every job."""
    job, task = attempt.job, attempt.id.task
    words = [name.encode() + b"=" + to_bytes(value) for name, value in (job.template.job_environment or {}).items()]
    told = {
        "JOB_ID": str(job.id),
        "JOBD_JOB_ID": str(attempt.id),
        "JOBD_ATTEMPT": str(attempt.number),
        "JOBD_SESSION": job.session,
        "JOBD_QUEUE": job.queue,
        "JOBD_TOKEN": attempt.token,
    }
    if task:
        told |= {"TASK_ID": str(task), "JOBD_TASK_ID": str(task)}
    return words + [f"{name}={value}".encode() for name, value in told.items()]


def search_path(entries: list[bytes], added: list[bytes]) -> bytes:
    """The PATH that a job has."""
    found = [entry[5:] for entry in entries + added if entry.startswith(b"PATH=")]
    return found[-1] if found else DEFAULT_PATH


def spec_of(
    attempt: Attempt, account: Account, entries: list[bytes], state_dir: Path, locality: Locality
) -> dict[str, Any]:
    """The keeper's order for an attempt (docs/keeper.md, "grant")."""
    job, template = attempt.job, attempt.job.template
    files = files_of(state_dir, job, attempt.id.task, attempt.number, account)
    added = additions(attempt)
    command: list[Text] = [template.remote_command, *(template.args or ())]
    spec: dict[str, Any] = {
        "t": attempt.token,
        "slots": job.slots,
        "argv": [wrap(to_bytes(part)) for part in command],
        "env": environment_key(attempt, account),
        "add": [wrap(entry) for entry in added],
        "cwd": wrap(files.cwd),
        "stdin": wrap(files.stdin),
        "stdout": _target(attempt, files.stdout, template.output_path),
        "stderr": None if files.stderr is None else _target(attempt, files.stderr, template.error_path),
        "umask": DEFAULT_UMASK if template.umask is None else template.umask,
    }
    spec |= _limits(attempt, account)
    if files.stdin.startswith(bytes(state_dir) + b"/"):
        spec["own_stdin"] = True
    program = locality.program(to_bytes(template.remote_command), search_path(entries, added), files.cwd)
    if program is not None and _plain(spec, files, locality):
        spec |= {"fast": True, "exe": wrap(program)}
    return spec


def environment_key(attempt: Attempt, account: Account) -> str:
    """The name of the shared environment within a grant."""
    return attempt.environment or f"minimal-{account.uid}"


def _target(attempt: Attempt, output: Output, path: Text | None) -> dict[str, Any]:
    target: dict[str, Any] = {"path": wrap(output.path)}
    if output.captured:
        target["own"] = True
    if truncates(attempt.job.template, path, attempt.job, attempt.id.task, attempt.number):
        target["trunc"] = True
    return target


def _limits(attempt: Attempt, account: Account) -> dict[str, Any]:
    template = attempt.job.template
    values: dict[str, Any] = {
        "time_limit": attributes.time_limit(template),
        "limits": attributes.limits(template) or None,
        "nice": template.nice,
        "leave": template.leave_children,
    }
    if account.switch:
        values |= {"uid": account.uid, "gid": account.gid, "groups": account.groups}
    return {name: value for name, value in values.items() if value is not None}


def _plain(spec: dict[str, Any], files: Files, locality: Locality) -> bool:
    """Whether the fast way will do: nothing special is asked for, and every path is local and plain."""
    if spec.keys() & {"limits", "nice", "uid", "own_stdin"} or spec["umask"] & _OWNER_BITS:
        return False
    outputs = [output for output in (files.stdout, files.stderr) if output and not output.captured]
    return (
        locality.is_folder(files.cwd)
        and locality.is_input(files.stdin)
        and all(locality.is_output(output.path) for output in outputs)
    )
