"""`LitAgent`: an agent as a class, with the interface of Agent Lightning's trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ratchet.types import Resource


class RolloutInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a `LitAgent` is told about its rollout."""

    input: Any
    """The task's input."""
    mode: Literal["train", "val"]
    """Whether the task belongs to the training or the validation split."""
    candidate_id: str
    """The candidate whose resources are bound."""
    seed: int
    """Seed for the agent's own randomness."""


class LitAgent:
    """An agent whose rollouts are calls of its methods. Override one of them.

    `rollout` (or `rollout_async`) runs all tasks. Where overridden, `training_rollout` and
    `validation_rollout` (or their `_async` forms) run the tasks of their split instead. Each
    returns the reward, a number, or None if `ratchet.emit_reward` reported it.
    """

    def rollout(self, task: Any, resources: Mapping[str, Resource], rollout: RolloutInfo) -> Any:
        """Run one task.

        Args:
            task: One item of the dataset.
            resources: The candidate's resources by name.
            rollout: Facts about this rollout.

        Returns:
            The reward.
        """
        raise NotImplementedError(f"{type(self).__name__} does not override a rollout method.")

    async def rollout_async(
        self, task: Any, resources: Mapping[str, Resource], rollout: RolloutInfo
    ) -> Any:
        """Run one task; async form of `rollout`."""
        raise NotImplementedError(f"{type(self).__name__} does not override a rollout method.")

    def training_rollout(
        self, task: Any, resources: Mapping[str, Resource], rollout: RolloutInfo
    ) -> Any:
        """Run one task of the training split."""
        return self.rollout(task, resources, rollout)

    def validation_rollout(
        self, task: Any, resources: Mapping[str, Resource], rollout: RolloutInfo
    ) -> Any:
        """Run one task of the validation split."""
        return self.rollout(task, resources, rollout)

    async def training_rollout_async(
        self, task: Any, resources: Mapping[str, Resource], rollout: RolloutInfo
    ) -> Any:
        """Run one task of the training split; async form."""
        return await self.rollout_async(task, resources, rollout)

    async def validation_rollout_async(
        self, task: Any, resources: Mapping[str, Resource], rollout: RolloutInfo
    ) -> Any:
        """Run one task of the validation split; async form."""
        return await self.rollout_async(task, resources, rollout)
