"""PPO: a critic estimates what a rollout will earn, and calls are compared with the estimate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from ratchet.types import Task
from ratchet.weights.advantage import in_order, usable
from ratchet.weights.credit import generalized_advantages
from ratchet.weights.critic import estimates
from ratchet.weights.learner import Learner
from ratchet.weights.loss import value_loss
from ratchet.weights.reading import Reading
from ratchet.weights.rollouts import RolloutMethod, StepPlan
from ratchet.weights.rows import TrainingRow
from ratchet.weights.sampler import GradedRollout, Sampler
from ratchet.weights.settings import PPO


class ActorCritic(RolloutMethod):
    """Proximal policy optimisation (Schulman et al., 2017) with a call as one action.

    The critic sees what the model saw before a call, and estimates what the rollout earns from
    there on. Its learner needs a critic.

    Args:
        settings: Of the method.
        sampler: Makes the rollouts.
        train: Tasks to learn from.
        val: Tasks that validations use.
    """

    def __init__(
        self, settings: PPO, sampler: Sampler, train: Sequence[Task], val: Sequence[Task]
    ) -> None:
        super().__init__(settings, sampler, train, val)
        self._settings = settings

    def _plan(
        self, learner: Learner, rollouts: Sequence[GradedRollout], rows: Sequence[TrainingRow]
    ) -> StepPlan:
        metrics: dict[str, Any] = {
            "excluded_rollouts": sum(not usable(rollout) for rollout in rollouts)
        }
        if not rows:
            return StepPlan({}, None, metrics)
        now = learner.evaluate(rows)
        values: dict[str, float] = {}
        for row, of_row in zip(rows, now.values, strict=True):
            place = 0
            for call in row.calls:
                values[call.transition_id] = float(of_row[place])
                place += call.stop - call.start
        advantages: dict[str, float] = {}
        earned: dict[str, float] = {}
        for rollout in filter(usable, rollouts):
            calls, rewards = _rewarded(rollout, values)
            estimated = np.array([values[call] for call in calls])
            gae = generalized_advantages(
                rewards,
                estimated,
                discount=self._settings.discount,
                trace=self._settings.trace,
            )
            advantages |= dict(zip(calls, gae.tolist(), strict=True))
            earned |= dict(zip(calls, (gae + estimated).tolist(), strict=True))
        targets = np.array(list(earned.values()))
        residuals = np.array([earned[call] - values[call] for call in earned])
        if targets.var() > 0.0:
            metrics["explained_variance"] = float(1.0 - residuals.var() / targets.var())
        if self._settings.normalize and len(advantages) > 1:
            spread = np.array(list(advantages.values()))
            scale = spread.std() + 1e-8
            advantages = {c: (a - spread.mean()) / scale for c, a in advantages.items()}
        return StepPlan(advantages, now.logprobs, metrics, values, earned)

    def _beside(
        self,
        learner: Learner,
        reading: Reading,
        rows: Sequence[TrainingRow],
        plan: StepPlan,
        calls: int,
    ) -> tuple[Any, dict[str, float]]:
        import torch

        transitions = [call for row in rows for call in row.calls]
        lengths = [call.stop - call.start for call in transitions]
        device = reading.hidden.device

        def tensor(of_call: dict[str, float]) -> Any:
            return torch.tensor(
                [of_call[call.transition_id] for call in transitions], device=device
            )

        first = torch.tensor(np.cumsum([0, *lengths[:-1]]), device=device)
        now = estimates(learner.critic, reading.hidden.index_select(0, first))
        loss = value_loss(now, tensor(plan.values), tensor(plan.earned), self._settings.critic_clip)
        total = loss.sum() / calls
        return self._settings.critic_weight * total, {"critic_loss": float(total.detach())}


def _rewarded(
    rollout: GradedRollout, values: dict[str, float]
) -> tuple[list[str], np.ndarray[Any, np.dtype[np.float64]]]:
    """The trained calls of a rollout in their order, and the reward of each.

    The rollout's reward comes with its last trained call. The reward of a call that is not trained
    counts for the one before it, or for the first.
    """
    calls = [call.id for call in in_order(rollout) if call.id in values]
    rewards: dict[str, float] = defaultdict(float)
    latest = calls[0] if calls else ""
    for call in in_order(rollout):
        latest = call.id if call.id in values else latest
        rewards[latest] += rollout.call_rewards.get(call.id, 0.0)
    if calls:
        rewards[calls[-1]] += rollout.reward or 0.0
    return calls, np.array([rewards[call] for call in calls], np.float64)
