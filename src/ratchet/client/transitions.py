"""Transitions of a server: the model calls of rollouts as tokens."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ratchet.client.call import RemoteRepository, Steps, TransportT, chunks, endpoint, post
from ratchet.types import KeptTokens, Transition


class _Batch(msgspec.Struct, frozen=True):
    transitions: dict[str, list[Transition]]
    left: list[str]


class _Kept(msgspec.Struct, frozen=True):
    kept: dict[str, KeptTokens]


class _Rewards(msgspec.Struct, frozen=True):
    call_rewards: dict[str, dict[str, float]]


class Transitions(RemoteRepository[TransportT]):
    """Transitions by rollout; the server's gateway stores them."""

    @endpoint
    def of(self, rollout_ids: Sequence[str]) -> Steps[dict[str, list[Transition]]]:
        """Transitions of each rollout's newest attempt, in the order of their calls.

        Those that were dropped are left out; `kept` counts them.

        Returns:
            For every requested id.
        """
        transitions: dict[str, list[Transition]] = {}
        for part in chunks(dict.fromkeys(rollout_ids)):
            left = part
            while left:
                answer = yield post("transitions", "lookup", body={"ids": left})
                batch = answer.read(_Batch)
                transitions.update(batch.transitions)
                left = batch.left
        return transitions

    @endpoint
    def kept(self, rollout_ids: Sequence[str]) -> Steps[dict[str, KeptTokens]]:
        """How much is kept of each rollout's newest attempt, for every requested id."""
        kept_tokens: dict[str, KeptTokens] = {}
        for part in chunks(dict.fromkeys(rollout_ids)):
            answer = yield post("transitions", "kept", body={"ids": part})
            kept_tokens.update(answer.read(_Kept).kept)
        return kept_tokens

    @endpoint
    def call_rewards(self, rollout_ids: Sequence[str]) -> Steps[dict[str, dict[str, float]]]:
        """Rewards of single calls by rollout and transition, for every requested rollout."""
        rewards: dict[str, dict[str, float]] = {}
        for part in chunks(dict.fromkeys(rollout_ids)):
            answer = yield post("transitions", "rewards", body={"ids": part})
            rewards.update(answer.read(_Rewards).call_rewards)
        return rewards
