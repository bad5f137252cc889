"""The one writer of state: check the transition table, commit, publish (promises 1, 4 and 5)."""

from jobd.bookkeeper.bookkeeper import Bookkeeper
from jobd.bookkeeper.eventlog import EventLog, Truncated

__all__ = ["Bookkeeper", "EventLog", "Truncated"]
