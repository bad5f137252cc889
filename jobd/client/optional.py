"""The parts of DRMAA2's session manager that jobd does not offer: each call says so by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from jobd.model.errors import UnsupportedOperation


def _refuse(name: str, hint: str | None = None) -> NoReturn:
    raise UnsupportedOperation(f"{name} is not supported by this version", hint=hint)


class OptionalOperations:
    """Each method raises UnsupportedOperation."""

    async def create_reservation_session(self, name: str | None = None, contact: str | None = None) -> NoReturn:
        """Reservations are not supported (DRMAA2 createReservationSession)."""
        _refuse("create_reservation_session")

    async def open_reservation_session(self, name: str) -> NoReturn:
        """Reservations are not supported (DRMAA2 openReservationSession)."""
        _refuse("open_reservation_session")

    async def destroy_reservation_session(self, name: str) -> NoReturn:
        """Reservations are not supported (DRMAA2 destroyReservationSession)."""
        _refuse("destroy_reservation_session")

    async def get_reservation_session_names(self) -> NoReturn:
        """Reservations are not supported (DRMAA2 getReservationSessionNames)."""
        _refuse("get_reservation_session_names")

    async def open_monitoring_session(self, contact: str | None = None) -> NoReturn:
        """The monitoring session is not supported (DRMAA2 openMonitoringSession)."""
        _refuse("open_monitoring_session")

    async def register_event_notification(self, callback: Callable[[Any], object] | None) -> NoReturn:
        """Callbacks are not supported: events are a stream (DRMAA2 registerEventNotification)."""
        _refuse("register_event_notification", hint="iterate over events()")
