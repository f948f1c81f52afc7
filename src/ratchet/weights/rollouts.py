"""The parts of reinforcement learning that all methods share: sampling and steps.

While a batch trains, the next ones are sampled, by weights that lag behind by `staleness` steps.
Batch b is made by the weights after max(0, b − staleness) steps, however long anything takes: so
two runs with the same seed sample the same.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ratchet.types import RatchetError, Task, content_hash
from ratchet.weights.advantage import usable
from ratchet.weights.learner import Diverged, Learner
from ratchet.weights.loss import ScoredTokens, policy_loss, token_weights
from ratchet.weights.metrics import ValResult, validation_of
from ratchet.weights.reading import Reading
from ratchet.weights.rows import TrainingRow, rows_of
from ratchet.weights.sampler import GradedRollout, Sampler
from ratchet.weights.settings import GRPO, PPO, Schedule

MAX_GAP = 2.0
"""Trainer and sampler count as different models if they differ by more nats per token."""


class StepPlan(NamedTuple):
    """The training targets of a batch of rows."""

    advantages: Mapping[str, float]
    """By transition id; calls without one are not trained."""
    old: Sequence[NDArray[np.float32]] | None
    """Log-probabilities of each row's trained tokens before the batch; None: those of the step."""
    metrics: dict[str, Any]
    values: dict[str, float] = {}
    """The critic's estimate before each call, by transition id."""
    earned: dict[str, float] = {}
    """What each call earned, by transition id."""


class RolloutMethod(ABC):
    """Learns from rollouts that the current weights make.

    Args:
        settings: Of the method.
        sampler: Makes the rollouts.
        train: Tasks to learn from; each is used once before one is used again.
        val: Tasks that validations use; without any, the last weights are the result.
    """

    max_rise = None

    def __init__(
        self, settings: GRPO | PPO, sampler: Sampler, train: Sequence[Task], val: Sequence[Task]
    ) -> None:
        if not train:
            raise RatchetError(
                "There are no tasks to train on.", hint="Add tasks to the train split."
            )
        self._common = settings
        self._sampler = sampler
        self._train = tuple(train)
        self._val = tuple(val)
        self._sampling: dict[int, asyncio.Task[list[GradedRollout]]] = {}

    @property
    def schedule(self) -> Schedule:
        """Steps, validations, checkpoints and seed."""
        return self._common.schedule

    @property
    def lag(self) -> int | None:
        """Number of steps by which rollouts may lag behind the weights."""
        return self._common.staleness

    @property
    def patience(self) -> int | None:
        """Number of batches in a row that teach nothing, after which training stops."""
        return None

    @property
    def recipe(self) -> dict[str, Any]:
        """Settings and hashes of the tasks."""
        return {
            **recipe_of(self._common),
            "train tasks": content_hash([task.content() for task in self._train]),
            "val tasks": content_hash([task.content() for task in self._val]),
        }

    async def batch(self, step: int, adapters: Callable[[int], Path | None]) -> list[GradedRollout]:
        """The rollouts of a step; also starts those of the next `staleness` steps."""
        last = min(step + self._common.staleness, self.schedule.steps - 1)
        for ahead in range(step, last + 1):
            if ahead not in self._sampling:
                adapter = adapters(max(0, ahead - self._common.staleness))
                self._sampling[ahead] = asyncio.create_task(self._collect(ahead, adapter))
        return await self._sampling.pop(step)

    async def _collect(self, step: int, adapter: Path | None) -> list[GradedRollout]:
        indices = drawn(self._common.tasks, len(self._train), step, self.schedule.seed)
        tasks = [self._train[i] for i in indices]
        return await self._sampler.collect(
            adapter, tasks, self._common.repetitions, batch=f"train-{step:05d}"
        )

    async def validate(self, learner: Learner, adapter: Path | None, step: int) -> ValResult | None:
        """Mean reward over the val tasks."""
        if not self._val:
            return None
        rollouts = await self._sampler.collect(
            adapter, self._val, self._common.val_repetitions, batch=f"val-{step:05d}"
        )
        by_task: dict[str, list[float]] = {}
        for rollout in rollouts:
            if rollout.reward is not None and usable(rollout):
                by_task.setdefault(rollout.task_id, []).append(rollout.reward)
        validation = validation_of([sum(rewards) / len(rewards) for rewards in by_task.values()])
        if validation is None:
            return None
        return msgspec.structs.replace(validation, candidate=rollouts[0].candidate_id)

    def train(
        self, learner: Learner, batch: Any, step: int, versions: dict[str, int]
    ) -> dict[str, Any]:
        """Take the optimizer steps of a batch of rollouts."""
        rollouts: list[GradedRollout] = batch
        rewards = [r.reward for r in rollouts if r.reward is not None and usable(r)]
        metrics: dict[str, Any] = {
            "reward": sum(rewards) / len(rewards) if rewards else None,
            "rollouts": len(rollouts),
            "purpose": rollouts[0].purpose if rollouts else "",
            **_staleness(rollouts, step, versions, self._common.staleness),
        }
        rows = [
            row
            for rollout in rollouts
            if usable(rollout)
            for row in rows_of(
                rollout,
                vocabulary=learner.vocabulary,
                mask_truncated=self._common.mask_truncated,
            )
        ]
        plan = self._plan(learner, rollouts, rows)
        trained = [i for i, row in enumerate(rows) if row.calls[0].transition_id in plan.advantages]
        metrics |= {**plan.metrics, "rows": len(trained), "taught": bool(trained)}
        if not trained:
            return metrics
        sums: dict[str, float] = {}
        parts = _mini_batches(rows, trained, self._common.mini_batches, [self.schedule.seed, step])
        # Groups that teach nothing count all the same: with few others, a step is then a small one.
        loss = self._common.loss
        weights = len(parts) * token_weights(
            loss.name,
            [int(row.mask.sum()) for row in rows],
            [row.rollout_id for row in rows],
            loss.length,
        )
        for part in parts:
            for name, value in self._update(learner, rows, plan, part, weights[part]).items():
                sums[name] = sums.get(name, 0.0) + value
        return metrics | _means(sums, len(parts))

    async def close(self) -> None:
        """Cancel sampling that is still running."""
        for task in self._sampling.values():
            task.cancel()
        await asyncio.gather(*self._sampling.values(), return_exceptions=True)
        self._sampling.clear()

    @abstractmethod
    def _plan(
        self, learner: Learner, rollouts: Sequence[GradedRollout], rows: Sequence[TrainingRow]
    ) -> StepPlan:
        """Advantages of the calls."""

    def _beside(
        self,
        learner: Learner,
        reading: Reading,
        rows: Sequence[TrainingRow],
        plan: StepPlan,
        calls: int,
    ) -> tuple[Any, dict[str, float]]:
        """A loss that is added to the policy's; none, unless a method has one.

        Args:
            learner: The learner.
            reading: Of a micro-batch.
            rows: Its rows.
            plan: The batch's.
            calls: Of the whole optimizer batch.
        """
        return 0.0, {}

    def _update(
        self,
        learner: Learner,
        rows: Sequence[TrainingRow],
        plan: StepPlan,
        part: Sequence[int],
        weights: NDArray[np.float64],
    ) -> dict[str, float]:
        """An optimizer step on some of the rows, with a token weight for each row."""
        import torch

        loss = self._common.loss
        tokens = [int(rows[i].mask.sum()) for i in part]
        calls = sum(len(rows[i].calls) for i in part)
        of_base = (
            learner.evaluate([rows[i] for i in part], of_base=True).logprobs if loss.kl else None
        )

        def objective(reading: Reading, chosen: Sequence[int]) -> tuple[Any, dict[str, float]]:
            device = reading.logprobs.device

            def tensor(parts: Sequence[NDArray[Any]]) -> Any:
                return torch.from_numpy(np.concatenate(parts)).to(device)

            batch = [rows[part[k]] for k in chosen]
            lengths = [call.stop - call.start for row in batch for call in row.calls]
            advantages = [
                plan.advantages[call.transition_id] for row in batch for call in row.calls
            ]
            old = None if plan.old is None else tensor([plan.old[part[k]] for k in chosen])
            scored = ScoredTokens(
                advantages=tensor([np.repeat(np.array(advantages, np.float32), lengths)]),
                old=reading.logprobs.detach() if old is None else old,
                sampler=tensor([row.logprobs[row.mask] for row in batch]),
                base=None if of_base is None else tensor([of_base[k] for k in chosen]),
                weights=tensor([np.full(tokens[k], weights[k], np.float32) for k in chosen]),
                call=tensor([np.repeat(np.arange(len(lengths)), lengths)]),
            )
            value, sums = policy_loss(reading.logprobs, scored, loss)
            beside, more = self._beside(learner, reading, batch, plan, calls)
            return value + beside, {**sums, **more, "entropy": float(reading.entropy.sum())}

        metrics = learner.step([(rows[i],) for i in part], objective, entropy=True)
        metrics["tokens"] = sum(tokens)
        if metrics["gap"] / metrics["tokens"] > MAX_GAP:
            raise Diverged(
                "Trainer and sampler give the same tokens probabilities that differ by"
                f" {metrics['gap'] / metrics['tokens']:.2g} nats on average.",
                hint="Either the sampler serves other weights, or a lower learning_rate is needed.",
            )
        return metrics


def recipe_of(settings: msgspec.Struct) -> dict[str, Any]:
    """Settings as JSON values by name, except the number of steps, which may be raised."""
    recipe: dict[str, Any] = msgspec.to_builtins(settings)
    schedule = {key: value for key, value in recipe["schedule"].items() if key != "steps"}
    return {"method": type(settings).__name__, **recipe, "schedule": schedule}


def drawn(count: int, of: int, step: int, seed: int) -> list[int]:
    """The items of a step, in random order in each epoch; an epoch's last step may have fewer.

    Args:
        count: Items of a step.
        of: How many there are.
        step: From 0.
        seed: Of the orders.

    Returns:
        Indices, none twice.
    """
    steps = -(-of // count)
    epoch, place = divmod(step, steps)
    order = np.random.default_rng([seed, epoch]).permutation(of)
    return [int(i) for i in order[place * count : (place + 1) * count]]


def _mini_batches(
    rows: Sequence[TrainingRow], trained: Sequence[int], count: int, seed: Sequence[int]
) -> list[list[int]]:
    """Spread rollouts over optimizer steps, with all rows of a rollout in the same step."""
    rollouts = sorted({rows[i].rollout_id for i in trained})
    order = np.random.default_rng(seed).permutation(len(rollouts))
    part_of = {rollouts[r]: place % count for place, r in enumerate(order)}
    parts = [[i for i in trained if part_of[rows[i].rollout_id] == part] for part in range(count)]
    return [part for part in parts if part]


def _staleness(
    rollouts: Sequence[GradedRollout], step: int, versions: Mapping[str, int], bound: int
) -> dict[str, Any]:
    """Number of steps by which the weights that answered lag behind, if reported.

    Raises:
        RatchetError: Weights answered that this run never made, or that are too old.
    """
    lags: list[int] = []
    for rollout in rollouts:
        for call in rollout.transitions:
            for version in {call.version_first, call.version_last} - {""}:
                trained_at = versions.get(version)
                if trained_at is None or step - trained_at > bound:
                    weights = (
                        "other weights"
                        if trained_at is None
                        else f"the weights of step {trained_at}"
                    )
                    raise RatchetError(
                        f"Call {call.id} of rollout {call.rollout_id} was answered by {weights} "
                        f"({version}), but step {step} needs weights that are at most {bound} "
                        "steps old.",
                        hint="The sampler does not serve the adapter that it was given. ",
                    )
                lags.append(step - trained_at)
    return {
        "staleness": sum(lags) / len(lags) if lags else None,
        "staleness_max": max(lags, default=None),
    }


def _means(sums: dict[str, float], updates: int) -> dict[str, Any]:
    """Means over tokens or updates, from sums over a step."""
    by_token = {
        "clipped": "clip_share",
        "truncated": "truncated_share",
        "ratio": "ratio",
        "gap": "gap",
        "kl": "kl",
        "entropy": "entropy",
    }
    averages: dict[str, Any] = {"tokens": int(sums["tokens"]), "updates": updates}
    for name, value in sums.items():
        if name in by_token:
            averages[by_token[name]] = value / sums["tokens"]
        elif name != "tokens":
            averages[name] = value / updates
    return averages
