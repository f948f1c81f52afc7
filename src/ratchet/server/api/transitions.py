"""Transitions: the model calls of rollouts as tokens."""

from __future__ import annotations

import msgspec

from ratchet.server.agent_limits import BY_IDS
from ratchet.server.api.rollouts import RolloutIds
from ratchet.server.routes import READ, RouteGroup
from ratchet.server.services import Services
from ratchet.types import KeptTokens, Transition

group = RouteGroup("transitions")


class TransitionBatch(msgspec.Struct, frozen=True):
    """Transitions of as many rollouts as fit into one response."""

    transitions: dict[str, list[Transition]]
    """By rollout, in the order of their calls; ids and log-probabilities in base64."""
    left: list[str]
    """Rollouts to ask for next."""


class KeptByRollout(msgspec.Struct, frozen=True):
    """The number of stored tokens, by rollout."""

    kept: dict[str, KeptTokens]


class CallRewards(msgspec.Struct, frozen=True):
    """Rewards of single calls."""

    call_rewards: dict[str, dict[str, float]]
    """By rollout and transition."""


@group.route("POST", "/v1/transitions/lookup", READ, agents=BY_IDS)
async def look_up_transitions(server: Services, body: RolloutIds) -> TransitionBatch:
    """Read the transitions of rollouts' newest attempts, as many rollouts as fit."""

    def read() -> TransitionBatch:
        transitions = next(server.store.transitions.batches(body.ids), {})
        return TransitionBatch(
            transitions, [id for id in dict.fromkeys(body.ids) if id not in transitions]
        )

    return await server.in_thread(read)


@group.route("POST", "/v1/transitions/kept", READ, agents=BY_IDS)
async def count_transitions(server: Services, body: RolloutIds) -> KeptByRollout:
    """Count the tokens of rollouts' newest attempts, and the calls that were dropped."""
    return KeptByRollout(await server.in_thread(server.store.transitions.kept, body.ids))


@group.route("POST", "/v1/transitions/rewards", READ, agents=BY_IDS)
async def list_call_rewards(server: Services, body: RolloutIds) -> CallRewards:
    """Read the rewards of single calls in rollouts' newest attempts."""
    return CallRewards(await server.in_thread(server.store.transitions.call_rewards, body.ids))
