"""Rollouts for reinforcement learning, made by a lab: weights under training are candidates."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratchet.autopilot.trainable import TrainableModel
from ratchet.autopilot.training_rewards import evaluate_to_train, rewards
from ratchet.autopilot.weights_algorithm import with_adapter
from ratchet.learn import Lab
from ratchet.types import Adapter, Candidate, Model, RatchetError, Task
from ratchet.types.wording import counted
from ratchet.weights.sampler import GradedRollout

if TYPE_CHECKING:
    from ratchet.models.policy import Base

VALIDATION = "val"
"""Prefix of the names of batches that only measure."""


class LabSampler:
    """Samples rollouts in a lab, which journals them: a killed run replays what it paid for.

    Args:
        lab: The lab.
        model: The model that is trained.
        base: Its base.
        name: Name of the baseline's model.
        resource: The baseline's model.
        algorithm: Name of the algorithm, for the candidates.
    """

    def __init__(
        self,
        lab: Lab,
        model: TrainableModel,
        base: Base,
        name: str,
        resource: Model,
        algorithm: str,
    ) -> None:
        self._lab = lab
        self._model = model
        self._base = base
        self._name = name
        self._resource = resource
        self._algorithm = algorithm
        self.recipe: dict[str, Any] = {}
        """How the weights are trained, which each version states."""

    async def collect(
        self, adapter: Path | None, tasks: Sequence[Task], repetitions: int, *, batch: str
    ) -> list[GradedRollout]:
        """Roll out each task `repetitions` times; see `Sampler`.

        Raises:
            BudgetExhausted: The budget does not cover the rollouts.
            RatchetError: The tokens of no call were kept.
        """
        candidate = await asyncio.to_thread(self._candidate, adapter)
        measures = batch.startswith(VALIDATION)
        # Other rollouts of the same weights on the same task, in each batch.
        first = 0 if measures else int(batch.rpartition("-")[2]) * repetitions
        rounds = await asyncio.gather(
            *(
                self._lab.evaluate(candidate, tasks, repetition=first + number)
                if measures
                else evaluate_to_train(
                    self._lab, candidate, tasks, repetition=first + number, training=batch
                )
                for number in range(repetitions)
            )
        )
        evaluations = [round[at] for at in range(len(tasks)) for round in rounds]
        tokens = await self._lab.tokens(evaluations)
        if not measures and not any(rollout_tokens.transitions for rollout_tokens in tokens):
            raise RatchetError(
                f"No tokens of model calls were kept in {counted(len(evaluations), 'rollout')}.",
                hint="The agent must call the model through the gateway: as a command does ([agent]"
                " command in ratchet.toml), or at the base_url of the model that Trainer gives it.",
            )
        return [
            GradedRollout(
                rollout_id=evaluation.rollout.id,
                task_id=evaluation.task.id,
                reward=reward,
                transitions=rollout_tokens.transitions,
                call_rewards=rollout_tokens.rewards,
                candidate_id=candidate.id,
                purpose=evaluation.rollout.purpose,
            )
            for evaluation, reward, rollout_tokens in zip(
                evaluations, rewards(evaluations), tokens, strict=True
            )
        ]

    def _candidate(self, adapter: Path | None) -> Candidate:
        if adapter is None:
            return self._lab.baseline
        from ratchet.models.policy import adapter_hash

        version = Adapter(
            hash=adapter_hash(adapter),
            base=self._base.fingerprint,
            tokenizer=self._base.tokenizer_hash,
            recipe={"algorithm": self._algorithm, "steps": int(adapter.name), **self.recipe},
        )
        self._model.load(version.hash, adapter)
        return self._lab.propose(
            {self._name: with_adapter(self._resource, version)},
            algorithm=self._algorithm,
            reason="A version of the weights under training.",
        )
