"""The rollouts that training requests: groups, sampled with given weights, with rewards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from ratchet.types import Task, Transition


class GradedRollout(msgspec.Struct, frozen=True, kw_only=True):
    """A finished rollout: the tokens of its model calls and what it earned."""

    rollout_id: str
    task_id: str
    """Rollouts of the same task form a group: their rewards are compared with each other."""
    reward: float | None
    """None: unknown. The rollout is then left out, like one whose reward is not finite."""
    transitions: tuple[Transition, ...]
    """The calls of the attempt that was graded; empty if the agent called no model."""
    call_rewards: dict[str, float] = {}
    """Rewards of single calls by transition id, which `reward` must not contain already."""
    candidate_id: str = ""
    """The weights that made it, if they are a candidate."""
    purpose: str = ""
    """Its purpose in the store; empty without a store."""


class Sampler(Protocol):
    """Makes rollouts of an agent with given weights."""

    async def collect(
        self, adapter: Path | None, tasks: Sequence[Task], repetitions: int, *, batch: str
    ) -> list[GradedRollout]:
        """Roll out each task `repetitions` times.

        Args:
            adapter: Folder of the adapter that must answer; None for the base model alone.
            tasks: Each at most once.
            repetitions: Rollouts of each task.
            batch: What the rollouts are for, such as `train-00003`; unique within a training run.
                Asked for the same batch again after a kill, the sampler returns the same rollouts:
                those that were paid for are replayed.

        Returns:
            The rollouts, ordered by task and repetition, whichever ended first: training on the
            same rollouts in another order gives slightly different weights.
        """
        ...
