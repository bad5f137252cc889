"""From committed starts to grants: what is prepared here can still be taken back until it has left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio

from jobd.backends.base import Attempt, Environments
from jobd.backends.process.locality import Locality, Mounts
from jobd.backends.process.owners import Account, account
from jobd.backends.process.specs import environment_entries, environment_key, spec_of
from jobd.model.ids import JobId
from jobd.model.job import Owner
from jobd.model.text import wrap

_ENVIRONMENTS = 64

Grants = tuple[dict[str, Any], list[dict[str, Any]]]


class Granting:
    """The queue between ``start`` and the keeper.

    Args:
        send: gives a keeper, by name, its grants.
    """

    def __init__(
        self,
        state_dir: Path,
        environments: Environments,
        send: Callable[[str, dict[str, Any], list[dict[str, Any]]], Awaitable[None]],
    ) -> None:
        self._state_dir = state_dir
        self._environments = environments
        self._send = send
        self._locality = Locality(Mounts())
        self._accounts: dict[int, Account] = {}
        self._contents: dict[str, list[bytes]] = {}
        self._pending: dict[JobId, Attempt] = {}
        self._arrived = anyio.Event()

    def add(self, attempts: Sequence[Attempt]) -> None:
        """Take attempts over."""
        self._pending.update({attempt.id: attempt for attempt in attempts})
        self._arrived.set()

    def take_back(self, ids: Sequence[JobId]) -> list[JobId]:
        """Forget attempts that have not left yet; which those were."""
        return [id for id in ids if self._pending.pop(id, None) is not None]

    async def run(self) -> None:
        """Prepare and send until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived = anyio.Event()
            attempts = list(self._pending.values())
            for keeper in dict.fromkeys(attempt.granted_to or "" for attempt in attempts):
                await self._grant(keeper, [one for one in attempts if one.granted_to == keeper])

    async def _grant(self, keeper: str, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            await self._load(attempt)
        specs = await anyio.to_thread.run_sync(self._prepare, attempts)
        # Without a pause from here to the send: what was taken back meanwhile is left out, what is left is under way.
        left = [one for one in attempts if self._pending.pop(one.id, None) is one]
        wanted = {one.token for one in left}
        envs = {self._key(one): self._shared(one) for one in left}
        if left:
            texts = {key: [wrap(entry) for entry in entries] for key, entries in envs.items()}
            await self._send(keeper, texts, [spec for spec in specs if spec["t"] in wanted])

    async def _load(self, attempt: Attempt) -> None:
        owner = attempt.job.owner
        if owner.uid not in self._accounts:
            self._accounts[owner.uid] = await anyio.to_thread.run_sync(account, owner)
        key = self._key(attempt)
        if key not in self._contents:
            if len(self._contents) >= _ENVIRONMENTS:
                self._contents.clear()
            digest = attempt.environment
            content = None if digest is None else await self._environments.environment(digest)
            self._contents[key] = environment_entries(content, self._accounts[owner.uid])

    def _prepare(self, attempts: list[Attempt]) -> list[dict[str, Any]]:
        self._locality.refresh()
        return [
            spec_of(one, self._accounts[one.job.owner.uid], self._shared(one), self._state_dir, self._locality)
            for one in attempts
        ]

    def _key(self, attempt: Attempt) -> str:
        return environment_key(attempt, self._accounts[attempt.job.owner.uid])

    def _shared(self, attempt: Attempt) -> list[bytes]:
        return self._contents[self._key(attempt)]

    async def account(self, owner: Owner) -> Account:
        """An owner's account."""
        if owner.uid not in self._accounts:
            self._accounts[owner.uid] = await anyio.to_thread.run_sync(account, owner)
        return self._accounts[owner.uid]

    async def is_local_file(self, path: bytes) -> bool:
        """Whether a path can be watched without a risk that it hangs."""
        return await anyio.to_thread.run_sync(self._locality.is_output, path)
