"""The table of transitions: total, and what DRMAA2 says of it."""

from __future__ import annotations

import pytest

from jobd.model.states import REACHABLE, TRANSITIONS, JobState, Refusal, Trigger

ALL = [(state, trigger) for state in JobState for trigger in Trigger]


def test_table_is_total() -> None:
    assert set(TRANSITIONS) == set(ALL)


@pytest.mark.parametrize("state", [JobState.DONE, JobState.FAILED])
def test_final_states_are_final(state: JobState) -> None:
    assert all(isinstance(TRANSITIONS[state, trigger], Refusal) for trigger in Trigger)
    assert REACHABLE[state] == {state}


@pytest.mark.parametrize("state", [state for state in JobState if not state.final])
def test_every_active_state_can_end(state: JobState) -> None:
    assert TRANSITIONS[state, Trigger.SUCCEED] is JobState.DONE
    assert TRANSITIONS[state, Trigger.FAIL] is JobState.FAILED


@pytest.mark.parametrize(
    ("before", "trigger", "after"),
    [
        (JobState.QUEUED, Trigger.HOLD, JobState.QUEUED_HELD),
        (JobState.QUEUED_HELD, Trigger.RELEASE, JobState.QUEUED),
        (JobState.REQUEUED, Trigger.HOLD, JobState.REQUEUED_HELD),
        (JobState.REQUEUED_HELD, Trigger.RELEASE, JobState.REQUEUED),
        (JobState.QUEUED, Trigger.START, JobState.RUNNING),
        (JobState.RUNNING, Trigger.STOP, JobState.SUSPENDED),
        (JobState.SUSPENDED, Trigger.CONTINUE, JobState.RUNNING),
        (JobState.SUSPENDED, Trigger.REQUEUE, JobState.REQUEUED),
        (JobState.RUNNING, Trigger.LOSE_SIGHT, JobState.UNDETERMINED),
    ],
)
def test_transitions_of_the_standard(before: JobState, trigger: Trigger, after: JobState) -> None:
    assert TRANSITIONS[before, trigger] is after


@pytest.mark.parametrize(
    ("state", "trigger"),
    [
        (JobState.QUEUED, Trigger.STOP),
        (JobState.QUEUED, Trigger.CONTINUE),
        (JobState.RUNNING, Trigger.HOLD),
        (JobState.RUNNING, Trigger.RELEASE),
        (JobState.QUEUED, Trigger.RELEASE),
    ],
)
def test_what_a_state_does_not_allow(state: JobState, trigger: Trigger) -> None:
    assert TRANSITIONS[state, trigger] is Refusal.INVALID


@pytest.mark.parametrize(
    ("state", "trigger"),
    [(JobState.RUNNING, Trigger.START), (JobState.SUSPENDED, Trigger.STOP), (JobState.DONE, Trigger.SUCCEED)],
)
def test_a_repeat_changes_nothing(state: JobState, trigger: Trigger) -> None:
    assert TRANSITIONS[state, trigger] is Refusal.UNCHANGED


def test_a_job_that_ran_is_never_queued_again_but_requeued() -> None:
    assert JobState.QUEUED not in REACHABLE[JobState.RUNNING]
    assert JobState.REQUEUED in REACHABLE[JobState.RUNNING]


def test_numbers_are_those_of_the_c_binding() -> None:
    assert [state.value for state in JobState] == list(range(9))
    assert (JobState.UNDETERMINED, JobState.DONE, JobState.FAILED) == (0, 7, 8)
