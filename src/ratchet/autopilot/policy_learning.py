"""GRPO and PPO in `ratchet improve`: the model learns from rollouts of its own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import msgspec

from ratchet.autopilot.lab_sampler import LabSampler
from ratchet.autopilot.trainable import TrainableModel
from ratchet.autopilot.weights_algorithm import WeightsAlgorithm
from ratchet.learn import Lab
from ratchet.types import Model
from ratchet.types.wording import counted
from ratchet.weights.settings import (
    GRPO,
    PPO,
    LoRA,
    LossName,
    Optimizer,
    PolicyLoss,
    Schedule,
)

if TYPE_CHECKING:
    from ratchet.models.policy import Base
    from ratchet.weights.run import TrainingMethod


DEFAULT_STEPS = 100
"""Default maximum number of batches."""


class PolicyLearning(WeightsAlgorithm):
    """Reinforcement learning on the objective.

    Args:
        method: grpo (rollouts of a task are compared) or ppo (a critic estimates their reward).
        steps: Batches; by default as many as the budget covers, and 100 without a limit.
        tasks: Train tasks of a batch.
        repetitions: Rollouts of each task; by default 8 for grpo and 1 for ppo.
        learning_rate: Of AdamW.
        rank: Of the adapter.
        alpha: The adapter's scale is alpha / rank.
        loss: token_mean, rollout_mean, constant, sequence or cispo.
        kl: Weight of the divergence from the base.
        discount: Share of the reward that is left one call earlier.
        staleness: Batches that are sampled ahead while the weights are trained.
        validate_every: Steps between comparisons on val.
        val_repetitions: Rollouts of each val task in a comparison.
        seed: Of the adapter's first weights and the order of the tasks.

    Raises:
        ConfigError: A number is out of its range.
    """

    def __init__(
        self,
        method: Literal["grpo", "ppo"],
        *,
        steps: int | None = None,
        tasks: int = 8,
        repetitions: int | None = None,
        learning_rate: float = 2e-5,
        rank: int = 16,
        alpha: int = 32,
        loss: LossName = "token_mean",
        kl: float = 0.0,
        discount: float = 1.0,
        staleness: int = 1,
        validate_every: int = 10,
        val_repetitions: int = 1,
        seed: int = 0,
    ) -> None:
        lora, optimizer = LoRA(rank=rank, alpha=alpha), Optimizer(learning_rate=learning_rate)
        super().__init__(method, lora=lora, optimizer=optimizer, seed=seed)
        kind: type[GRPO | PPO] = GRPO if method == "grpo" else PPO
        self._settings: GRPO | PPO = kind(
            schedule=Schedule(
                steps=steps or DEFAULT_STEPS, validate_every=validate_every, seed=seed
            ),
            lora=lora,
            optimizer=optimizer,
            loss=PolicyLoss(name=loss, kl=kl),
            tasks=tasks,
            repetitions=(8 if method == "grpo" else 1) if repetitions is None else repetitions,
            discount=discount,
            staleness=staleness,
            val_repetitions=val_repetitions,
        )
        self._steps = steps
        if isinstance(self._settings, PPO):
            self.critic_learning_rate = self._settings.critic_learning_rate

    def rollouts(self, lab: Lab) -> int:
        """Rollouts of the training run, with both comparisons on val."""
        return self._cost(lab, self._steps or 1)

    def _cost(self, lab: Lab, steps: int) -> int:
        settings = self._settings
        batch = min(settings.tasks, len(lab.train)) * settings.repetitions
        validations = 1 + math.ceil(steps / settings.schedule.validate_every)
        return steps * batch + (2 + validations * settings.val_repetitions) * len(lab.val)

    async def method(
        self, lab: Lab, model: TrainableModel, base: Base, name: str, resource: Model
    ) -> TrainingMethod:
        """Rollouts of the train tasks, sampled by the weights under training."""
        limit, steps = lab.budget.rollouts, self._steps or DEFAULT_STEPS
        if self._steps is None and limit is not None:
            steps = max(
                n for n in range(1, DEFAULT_STEPS + 1) if n == 1 or self._cost(lab, n) <= limit
            )
        schedule = msgspec.structs.replace(self._settings.schedule, steps=steps)
        settings = msgspec.structs.replace(self._settings, schedule=schedule)
        lab.note(
            f"Training for {counted(steps, 'step')} of {counted(settings.tasks, 'task')},"
            f" {counted(settings.repetitions, 'rollout')} each…"
        )
        sampler = LabSampler(lab, model, base, name, resource, self.name)
        from ratchet.weights.grpo import GroupRelative
        from ratchet.weights.ppo import ActorCritic

        method: GroupRelative | ActorCritic
        if isinstance(settings, GRPO):
            method = GroupRelative(settings, sampler, lab.train, lab.val)
        else:
            method = ActorCritic(settings, sampler, lab.train, lab.val)
        sampler.recipe = method.recipe
        return method
