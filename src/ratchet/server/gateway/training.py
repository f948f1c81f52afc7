"""Finds the rollouts that train a model, and gives their calls a seed and a role."""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from ratchet.server.body import Content
from ratchet.server.gateway.headers import ROLE_HEADER
from ratchet.server.gateway.loading_cache import LoadingCache
from ratchet.server.gateway.substitution import PROMPT_NAME as PROMPT_NAME
from ratchet.server.gateway.target import GatewayTarget
from ratchet.store import Store
from ratchet.types import InputError, trains

READ_TIMEOUT_S = 3.0
"""Seconds that a call waits for the store."""

ROLLOUTS = 20_000
"""Maximum number of rollouts that are remembered."""

MAX_ROLE = 100
"""Maximum length of a role, in characters."""


class ReadTraining(Protocol):
    """Reads whether a rollout trains a model."""

    async def __call__(self, rollout_id: str) -> bool:
        """Whether it does.

        Raises:
            RatchetError: The store cannot be read.
        """


class TrainingReader:
    """Reads whether rollouts train a model, once per rollout: a purpose never changes.

    Args:
        store: Store of rollouts.
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
        self._training: LoadingCache[bool] = LoadingCache(
            self._read,
            executor=ThreadPoolExecutor(2, thread_name_prefix="ratchet-training"),
            clock=clock,
            ttl_s=math.inf,
            limit=ROLLOUTS,
            timeout_s=timeout_s,
        )

    async def __call__(self, rollout_id: str) -> bool:
        """Whether a rollout trains; see `ReadTraining`."""
        return await self._training.get(rollout_id)

    def _read(self, rollout_id: str) -> bool:
        rollout = self._store.rollouts.get([rollout_id]).get(rollout_id)
        if rollout is None:
            raise InputError(f"The store has no rollout {rollout_id!r}.")
        return trains(rollout.purpose)


class CallSeeds:
    """Seeds of a rollout's calls: the same whenever the same rollout makes the same call.

    So a rollout that is run again after a kill samples the same tokens, and the repetitions of a
    task sample different ones, whatever seed the agent states.
    """

    def __init__(self) -> None:
        self._made: OrderedDict[GatewayTarget, Counter[bytes]] = OrderedDict()

    def next(self, target: GatewayTarget, body: Content) -> int:
        """The seed of a call, in [0, 2³¹).

        Args:
            target: The attempt.
            body: The request as the client sent it; equal ones of an attempt get different seeds.
        """
        content = hashlib.sha256(body).digest()
        counts = self._made.get(target)
        if counts is None:
            counts = self._made[target] = Counter()
            if len(self._made) > ROLLOUTS:
                self._made.popitem(last=False)
        text = f"{target.rollout_id}/{counts[content]}/".encode() + content
        counts[content] += 1
        return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") >> 1

    def forget(self, target: GatewayTarget) -> None:
        """Forget an attempt that has ended."""
        self._made.pop(target, None)


def role_of(headers: Sequence[tuple[bytes, bytes]], attributes: Mapping[str, object]) -> str:
    """The role of the agent that makes a call.

    It comes from the header `x-ratchet-role`, or else is the name of the first prompt recognised
    in the request; empty without either.
    """
    for key, value in headers:
        if key == ROLE_HEADER:
            return value.decode("latin-1").strip()[:MAX_ROLE]
    prompt_name = attributes.get(PROMPT_NAME, "")
    return str(prompt_name[0] if isinstance(prompt_name, list) else prompt_name)[:MAX_ROLE]
