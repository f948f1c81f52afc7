"""`LitAgent`: an agent as a class, in the form that Agent Lightning's trainer takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ratchet.types import Resource


class RolloutInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent of the trainer form may know of the rollout that it runs in."""

    input: Any
    """The task."""
    mode: Literal["train", "val"]
    """Whether the task is one to learn from or one to choose by."""
    candidate_id: str
    """The candidate whose resources it runs with."""
    seed: int
    """For the agent's own randomness."""


class LitAgent:
    """An agent whose rollouts are calls of its methods. Override one of them.

    `rollout` (or `rollout_async`) serves all tasks; `training_rollout` and `validation_rollout`
    (and their `_async` twins) those of one split, where they are overridden. Each returns the
    reward, a number, or None when `ratchet.emit_reward` gave it.
    """

    def rollout(self, task: Any, resources: Mapping[str, Resource], rollout: RolloutInfo) -> Any:
        """Run one task.

        Args:
            task: One item of the dataset.
            resources: Resource by name, as the candidate has them.
            rollout: What is known of this rollout.

        Returns:
            The reward.
        """
        raise NotImplementedError(f"{type(self).__name__} overrides no rollout method.")

    async def rollout_async(
        self, task: Any, resources: Mapping[str, Resource], rollout: RolloutInfo
    ) -> Any:
        """The same, async."""
        raise NotImplementedError(f"{type(self).__name__} overrides no rollout method.")

    def training_rollout(
        self, task: Any, resources: Mapping[str, Resource], rollout: RolloutInfo
    ) -> Any:
        """Run one task of train."""
        return self.rollout(task, resources, rollout)

    def validation_rollout(
        self, task: Any, resources: Mapping[str, Resource], rollout: RolloutInfo
    ) -> Any:
        """Run one task of val."""
        return self.rollout(task, resources, rollout)

    async def training_rollout_async(
        self, task: Any, resources: Mapping[str, Resource], rollout: RolloutInfo
    ) -> Any:
        """Run one task of train, async."""
        return await self.rollout_async(task, resources, rollout)

    async def validation_rollout_async(
        self, task: Any, resources: Mapping[str, Resource], rollout: RolloutInfo
    ) -> Any:
        """Run one task of val, async."""
        return await self.rollout_async(task, resources, rollout)
