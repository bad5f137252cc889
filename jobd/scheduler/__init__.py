"""Which waiting job may start now. Pure decisions over an indexed picture; nothing here starts anything."""

from jobd.scheduler.fifo import Scheduler

__all__ = ["Scheduler"]
