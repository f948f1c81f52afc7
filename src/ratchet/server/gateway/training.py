"""How the calls of a rollout reach the model under training: its name, its sampling, its seeds."""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import msgspec

from ratchet.server.gateway.headers import ROLE_HEADER
from ratchet.server.gateway.loading_cache import LoadingCache
from ratchet.server.gateway.substitution import NAME as PROMPT_NAME
from ratchet.server.gateway.target import GatewayTarget
from ratchet.store import Store
from ratchet.types import Candidate, InputError, Model, trains

READ_TIMEOUT_S = 3.0
"""Seconds that a call waits for the store."""

ROLLOUTS = 20_000
"""Most rollouts that are remembered."""

MAX_ANCESTORS = 100
"""Most ancestors of a candidate that are looked at."""

MAX_ROLE = 100
"""Most characters of a role."""


class RolloutPolicy(msgspec.Struct, frozen=True):
    """What a rollout's purpose and candidate say of its model calls."""

    trains: bool = False
    """Whether its tokens are kept, and sampled from the model's own distribution."""
    models: dict[str, str] = {}
    """Name to send for a model that is asked for."""
    every: str = ""
    """Name to send for all others; empty to leave them."""

    def model(self, asked: str | None) -> str | None:
        """The name to ask for instead of a model's."""
        return self.models.get(asked or "", self.every) or asked


class ReadPolicy(Protocol):
    """Reads the policy of a rollout."""

    async def __call__(self, rollout_id: str) -> RolloutPolicy:
        """The policy.

        Raises:
            RatchetError: The store cannot be read.
        """


class PolicyReader:
    """Reads what a rollout's model calls are to be, once for each rollout.

    A `Model` with weights among the candidate's resources is the model under training. Its name
    replaces the one that the agent's source names, which is that of the same resource in the
    candidate's ancestors. Where these have no such resource, it replaces every model's name.

    Args:
        store: Store of rollouts and candidates.
        clock: Monotonic clock in seconds.
        timeout_s: Seconds that a call waits for the store.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.monotonic,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> None:
        self._store = store
        # Neither purpose nor candidate of a rollout ever change.
        self._policies: LoadingCache[RolloutPolicy] = LoadingCache(
            self._read,
            executor=ThreadPoolExecutor(2, thread_name_prefix="ratchet-policies"),
            clock=clock,
            ttl_s=math.inf,
            limit=ROLLOUTS,
            timeout_s=timeout_s,
        )

    async def __call__(self, rollout_id: str) -> RolloutPolicy:
        """The policy of a rollout; see `ReadPolicy`."""
        return await self._policies.get(rollout_id)

    def _read(self, rollout_id: str) -> RolloutPolicy:
        rollout = self._store.rollouts.get([rollout_id]).get(rollout_id)
        if rollout is None:
            raise InputError(f"The store has no rollout {rollout_id!r}.")
        candidate = self._candidate(rollout.candidate_id)
        trained = {
            name: resource
            for name, resource in (candidate.resources if candidate else {}).items()
            if isinstance(resource, Model) and resource.weights
        }
        models: dict[str, str] = {}
        every = ""
        ancestors = self._ancestors(candidate) if candidate and trained else []
        for name, resource in trained.items():
            before = [one.resources[name] for one in ancestors if name in one.resources]
            models.update((one.model, resource.model) for one in before if isinstance(one, Model))
            if not before:
                every = resource.model
        return RolloutPolicy(trains(rollout.purpose), models, every)

    def _candidate(self, id: str) -> Candidate | None:
        """None also for a candidate that was made elsewhere and is not stored."""
        try:
            return self._store.candidates.get(id) if id else None
        except InputError:
            return None

    def _ancestors(self, candidate: Candidate) -> Sequence[Candidate]:
        found: dict[str, Candidate] = {}
        waiting = list(candidate.parents)
        while waiting and len(found) < MAX_ANCESTORS:
            parent = self._candidate(waiting.pop(0))
            if parent is not None and parent.id not in found:
                found[parent.id] = parent
                waiting += parent.parents
        return list(found.values())


class CallSeeds:
    """Seeds of a rollout's calls: the same whenever the same rollout makes the same call.

    So a rollout that is run again after a kill samples the same tokens, and the repetitions of a
    task sample different ones, whatever seed the agent states.
    """

    def __init__(self) -> None:
        self._made: OrderedDict[GatewayTarget, Counter[bytes]] = OrderedDict()

    def next(self, target: GatewayTarget, body: bytes) -> int:
        """The seed of a call, in [0, 2³¹).

        Args:
            target: The attempt.
            body: The request as the client sent it; equal ones of an attempt get different seeds.
        """
        content = hashlib.sha256(body).digest()
        made = self._made.get(target)
        if made is None:
            made = self._made[target] = Counter()
            if len(self._made) > ROLLOUTS:
                self._made.popitem(last=False)
        text = f"{target.rollout_id}/{made[content]}/".encode() + content
        made[content] += 1
        return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") >> 1

    def forget(self, target: GatewayTarget) -> None:
        """Drop what is remembered of an attempt that has ended."""
        self._made.pop(target, None)


def role_of(headers: Sequence[tuple[bytes, bytes]], attributes: Mapping[str, object]) -> str:
    """The role of the agent that makes a call.

    That of the header `x-ratchet-role`, else the first prompt that was recognised in the request,
    by its name; empty without either.
    """
    for key, value in headers:
        if key == ROLE_HEADER:
            return value.decode("latin-1").strip()[:MAX_ROLE]
    named = attributes.get(PROMPT_NAME, "")
    return str(named[0] if isinstance(named, list) else named)[:MAX_ROLE]
