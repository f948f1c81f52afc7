"""GRPO: compares the rollouts of a task with one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ratchet.types import Task
from ratchet.weights.advantage import group_advantages
from ratchet.weights.learner import Learner
from ratchet.weights.rollouts import RolloutMethod, StepPlan
from ratchet.weights.rows import TrainingRow
from ratchet.weights.sampler import GradedRollout, Sampler
from ratchet.weights.settings import GRPO


class GroupRelative(RolloutMethod):
    """Group relative policy optimisation (Shao et al., "DeepSeekMath", 2024).

    Args:
        settings: Of the method.
        sampler: Makes the rollouts.
        train: Tasks to learn from.
        val: Tasks that validations use.
    """

    def __init__(
        self, settings: GRPO, sampler: Sampler, train: Sequence[Task], val: Sequence[Task]
    ) -> None:
        super().__init__(settings, sampler, train, val)
        self._settings = settings

    @property
    def patience(self) -> int | None:
        """Number of batches in a row in which every group earned the same, after which training
        stops."""
        return self._settings.patience

    def _plan(
        self, learner: Learner, rollouts: Sequence[GradedRollout], rows: Sequence[TrainingRow]
    ) -> StepPlan:
        settings = self._settings
        advantages = group_advantages(
            rollouts,
            discount=settings.discount,
            scale=settings.scale,
            call_weight=settings.call_weight,
        )
        metrics: dict[str, Any] = {
            "groups": advantages.groups,
            "skipped_groups": advantages.skipped_groups,
            "excluded_rollouts": advantages.excluded_rollouts,
        }
        old = learner.evaluate(rows).logprobs if settings.mini_batches > 1 and rows else None
        return StepPlan(advantages.by_call, old, metrics)
