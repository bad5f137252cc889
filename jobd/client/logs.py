"""A job's output as it was written, and as it comes."""

from __future__ import annotations

from typing import Any, Literal

from jobd.client.link import Link
from jobd.client.subscription import Subscription
from jobd.model.errors import from_wire
from jobd.model.text import unwrap

StreamName = Literal["stdout", "stderr"]


class LogStream(Subscription[bytes]):
    """The bytes of one stream, in pieces of any size. Nothing is lost or repeated when the daemon is restarted."""

    method = "logs"

    def __init__(
        self,
        link: Link,
        job: str,
        stream: StreamName,
        *,
        follow: bool,
        lines: int | None,
        attempt: int | None,
    ) -> None:
        super().__init__(link)
        self._request = {"job": job, "streams": [stream], "follow": follow, "attempt": attempt}
        self._stream = stream
        self._lines = lines
        self._offset: int | None = None

    def _params(self) -> dict[str, Any]:
        if self._offset is None:
            return {**self._request, "lines": self._lines}
        return {**self._request, "offsets": {self._stream: self._offset}}

    def _answered(self, result: dict[str, Any]) -> None:
        """It says nothing more than that the output follows."""

    def _take(self, method: str, params: dict[str, Any]) -> None:
        if method == "output":
            data = unwrap(params["data"])
            self._offset = params["offset"] + len(data)
            self._items.append(data)
        elif method == "output_end":
            error = params.get("error")
            self._finish(None if error is None else from_wire(error))
