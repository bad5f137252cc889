"""Job ids: ``42`` is a job or a whole array, ``42.7`` task 7 of array 42. Standard library only."""

from __future__ import annotations

import re
from typing import NamedTuple

from jobd.model.errors import InvalidArgument

_LARGEST = 2**63 - 1
_ID = re.compile(r"([1-9][0-9]*)(?:\.([1-9][0-9]*))?\Z", re.ASCII)


class JobId(NamedTuple):
    """A job's number and, in an array, the task's index.

    ``task`` is 0 for a single job and for an array as a whole; DRMAA2 indices start at 1 (run_bulk_jobs).
    """

    job: int
    task: int = 0

    def __str__(self) -> str:
        return f"{self.job}.{self.task}" if self.task else str(self.job)


def parse_id(text: str) -> JobId:
    """Read ``42`` or ``42.7``.

    Raises:
        InvalidArgument: the text is no id, or a number in it is larger than 63 bits.
    """
    match = _ID.match(text)
    if match is None:
        raise InvalidArgument(f"{text!r} is not a job id", hint="an id is a number such as 42, or 42.7 for a task")
    job, task = int(match[1]), int(match[2] or 0)
    if max(job, task) > _LARGEST:
        raise InvalidArgument(f"job id {text} is larger than any id that is ever given")
    return JobId(job, task)
