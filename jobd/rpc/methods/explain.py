"""``explain``: why a job isn't running, or why and how it ended (promise 12)."""

from __future__ import annotations

from typing import Any

from jobd.model.job import Job, Tasks
from jobd.model.states import JobState
from jobd.model.status import (
    Active,
    Ended,
    Exited,
    NotStarted,
    Outcome,
    Signalled,
    Undetermined,
    Unknown,
    Waiting,
)
from jobd.model.template import to_bytes
from jobd.model.text import shown
from jobd.rpc.context import Call
from jobd.rpc.dispatch import Method, Params
from jobd.rpc.selection import Selection, select
from jobd.scheduler import Scheduler

_CAUSES = {
    "terminated": "It was terminated on request",
    "time-limit": "It was ended by its time limit",
    "deadline": "It was ended by its deadline",
    "node-rebooted": "The machine was rebooted while it ran",
}
_STEPS = {
    "exec": "the command could not be executed",
    "lookup": "the command was not found",
    "chdir": "the working directory could not be entered",
    "stdin": "the input could not be opened",
    "stdout": "the output file could not be opened",
    "stderr": "the error file could not be opened",
    "limits": "a resource limit could not be set",
    "nice": "the nice value could not be set",
    "identity": "it could not become its owner",
}


class ExplainParams(Params):
    """Which jobs."""

    selection: Selection


async def explain(call: Call, params: ExplainParams) -> dict[str, Any]:
    """A sentence or two for each job."""
    found = await select(call, params.selection)
    return {"jobs": [_row(call, job, tasks) for job, tasks in found]}


def _row(call: Call, job: Job, tasks: Tasks) -> dict[str, Any]:
    text = sentence(job, tasks, call.context.scheduler)
    if not tasks.state.final and (trouble := call.context.backend(job.backend).health().last_error):
        text += f" Backend {job.backend}: {trouble}."
    return {
        "job_id": str(tasks.id),
        "state": tasks.state.name,
        "sub_state": tasks.status.sub_state,
        "explanation": text,
    }


def sentence(job: Job, tasks: Tasks, scheduler: Scheduler) -> str:
    """Why it stands where it stands."""
    match tasks.status:
        case Waiting() as status:
            return _waiting(tasks, status, scheduler)
        case Active() as status:
            return _active(tasks, status)
        case Undetermined() as status:
            return f"Its state can't be found out: {status.annotation}."
        case Ended() as status:
            return _ended(job, status)


def _waiting(tasks: Tasks, status: Waiting, scheduler: Scheduler) -> str:
    if status.state in (JobState.QUEUED_HELD, JobState.REQUEUED_HELD):
        return f"It is held: jobd release {tasks.id} lets it start."
    reason = f" It was not started so far: {status.sub_state}." if status.sub_state else ""
    return scheduler.explain(tasks.id) + reason


def _active(tasks: Tasks, status: Active) -> str:
    ending = f", and is being ended ({tasks.cause})" if tasks.cause else ""
    if status.state is JobState.SUSPENDED:
        return f"Its processes are stopped{ending}: jobd resume {tasks.id} lets them go on."
    if status.sub_state == "starting":
        return f"Its process {status.native_id} was started but has not reached its command yet{ending}."
    return f"It runs as process {status.native_id}{ending}."


def _ended(job: Job, status: Ended) -> str:
    how = _how(job, status.outcome)
    cause = _CAUSES.get(status.sub_state or "")
    text = f"{cause}; {how[0].lower()}{how[1:]}" if cause else how
    note = f" {status.annotation}" if status.annotation else ""
    return f"{text}.{note}"


def _how(job: Job, outcome: Outcome) -> str:
    match outcome:
        case Exited(0):
            return "It ended with exit status 0"
        case Exited(code):
            return f"It ended with exit status {code}"
        case Signalled(signal, core_dumped):
            return f"It was ended by {signal}" + (", and left a core dump" if core_dumped else "")
        case NotStarted(None, _):
            return "It never started"
        case NotStarted(step, error):
            command = shown(to_bytes(job.template.remote_command).decode("utf-8", "surrogateescape"))
            return f"It could not be started ({command}): {_STEPS.get(step or '', step)} ({error})"
        case Unknown():
            return "How it ended can't be known"


METHODS = {"explain": Method(ExplainParams, explain)}
