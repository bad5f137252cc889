"""SQLite: schema and migrations, named queries, one writer that commits groups, and readers beside it."""

from jobd.store.batch import Batch, Request, Session
from jobd.store.store import Store

__all__ = ["Batch", "Request", "Session", "Store"]
