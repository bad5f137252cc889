"""From committed starts to grants: what is prepared here can still be taken back until it has left."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import structlog

from jobd.backends.base import Attempt, Environments, RefusedSeen
from jobd.backends.process.link import KeeperGone, Link
from jobd.backends.process.locality import Locality, Mounts
from jobd.backends.process.owners import Account, account
from jobd.backends.process.reports import Reports
from jobd.backends.process.specs import environment_entries, environment_key, spec_of
from jobd.model.errors import JobdError
from jobd.model.ids import JobId
from jobd.model.job import Owner
from jobd.model.text import wrap

_log = structlog.get_logger(__name__)

_ENVIRONMENTS = 64
_FRESH = 60.0


class Accounts:
    """Owners looked up, and remembered for a minute: groups change."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, Account]] = {}

    async def find(self, owner: Owner) -> Account:
        """An owner's account.

        Raises:
            OSError: the user database can't be asked.
        """
        known = self._known.get(owner.uid)
        if known is None or known[0] < time.monotonic():
            known = time.monotonic() + _FRESH, await anyio.to_thread.run_sync(account, owner)
            self._known[owner.uid] = known
        return known[1]


class Granting:
    """The queue between ``start`` and the keeper.

    Args:
        ready: the keeper of a name, connected.
    """

    def __init__(
        self,
        state_dir: Path,
        environments: Environments,
        accounts: Accounts,
        reports: Reports,
        ready: Callable[[str], Awaitable[Link]],
    ) -> None:
        self._state_dir = state_dir
        self._environments = environments
        self._accounts = accounts
        self._reports = reports
        self._ready = ready
        self._mounts = Mounts()
        self._locality = Locality(self._mounts)
        self._contents: dict[str, list[bytes]] = {}
        self._pending: dict[JobId, Attempt] = {}
        self._arrived = anyio.Event()
        self.trouble: str | None = None

    def add(self, attempts: Sequence[Attempt]) -> None:
        """Take attempts over."""
        self._pending.update({attempt.id: attempt for attempt in attempts})
        self._arrived.set()

    def waiting(self, id: JobId) -> bool:
        """Whether a start has not left yet."""
        return id in self._pending

    def take_back(self, ids: Sequence[JobId]) -> list[JobId]:
        """Forget attempts that have not left yet; which those were."""
        return [id for id in ids if self._pending.pop(id, None) is not None]

    async def run(self) -> None:
        """Prepare and send until cancelled."""
        with closing(self._mounts):
            await self._serve()

    async def _serve(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived = anyio.Event()
            by_keeper: dict[str, list[Attempt]] = {}
            for attempt in self._pending.values():
                by_keeper.setdefault(attempt.granted_to or "", []).append(attempt)
            for keeper, attempts in by_keeper.items():
                await self._grant(keeper, attempts)

    async def _grant(self, keeper: str, attempts: list[Attempt]) -> None:
        try:
            specs, envs = await self._prepared(attempts)
            link = await self._ready(keeper)
        except KeeperGone:
            await self._give_back(attempts, None)
        except (OSError, JobdError) as error:
            _log.error("nothing could be started", keeper=keeper, error=str(error))
            self.trouble = str(error)
            await self._give_back(attempts, self.trouble)
        else:
            self.trouble = None
            await self._hand_over(link, self._leaving(attempts), specs, envs)

    def _leaving(self, attempts: Iterable[Attempt]) -> list[Attempt]:
        """Those that were not taken back meanwhile. From here to the keeper nothing pauses."""
        leaving = [one for one in attempts if self._pending.get(one.id) is one]
        for one in leaving:
            del self._pending[one.id]
        return leaving

    async def _hand_over(
        self, link: Link, leaving: list[Attempt], specs: dict[str, dict[str, Any]], envs: dict[str, list[Any]]
    ) -> None:
        if not leaving:
            return
        wanted = [specs[one.token] for one in leaving]
        used = {spec["env"] for spec in wanted}
        try:
            await link.grant({key: entries for key, entries in envs.items() if key in used}, wanted)
        except KeeperGone:
            # Whether it started any of them is found out when it answers again, or from its journal.
            _log.warning("a keeper went away while it was given starts", keeper=link.name)

    async def _give_back(self, attempts: list[Attempt], reason: str | None) -> None:
        """Each exactly once: a second time it might be the next intent, of the same number, that is given back."""
        await self._reports.tell([RefusedSeen(one.id, one.number, reason) for one in self._leaving(attempts)])

    async def _prepared(self, attempts: list[Attempt]) -> tuple[dict[str, dict[str, Any]], dict[str, list[Any]]]:
        """The orders by token, and the environments that they share."""
        accounts = {one.token: await self._accounts.find(one.job.owner) for one in attempts}
        contents = {one.token: await self._content(one, accounts[one.token]) for one in attempts}

        def prepare() -> tuple[dict[str, dict[str, Any]], dict[str, list[Any]]]:
            self._locality.refresh()
            specs, envs = {}, {}
            for one in attempts:
                found, entries = accounts[one.token], contents[one.token]
                specs[one.token] = spec_of(one, found, entries, self._state_dir, self._locality)
                envs[environment_key(one, found)] = entries
            return specs, {key: [wrap(entry) for entry in entries] for key, entries in envs.items()}

        return await anyio.to_thread.run_sync(prepare)

    async def _content(self, attempt: Attempt, found: Account) -> list[bytes]:
        key = environment_key(attempt, found)
        if key not in self._contents:
            if len(self._contents) >= _ENVIRONMENTS:
                self._contents.clear()
            digest = attempt.environment
            content = None if digest is None else await self._environments.environment(digest)
            self._contents[key] = environment_entries(content, found)
        return self._contents[key]

    async def is_local_file(self, path: bytes) -> bool:
        """Whether a path can be watched without a risk that it hangs."""

        def look() -> bool:
            # Without this a mount that is newer than the last grant would be looked into, and might hang a thread.
            self._locality.refresh()
            return self._locality.is_output(path)

        return await anyio.to_thread.run_sync(look)
