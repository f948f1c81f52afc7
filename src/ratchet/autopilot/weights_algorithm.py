"""Learning weights in `ratchet improve`: train an adapter, and propose it as a candidate."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import msgspec

from ratchet.autopilot.adapters import served_name
from ratchet.autopilot.trainable import TrainableModel
from ratchet.learn import BudgetExhausted, Finding, Lab, Proposal, mean
from ratchet.types import Adapter, Candidate, InputError, Model
from ratchet.types.wording import counted
from ratchet.weights.settings import LoRA, Optimizer

if TYPE_CHECKING:
    from ratchet.models.policy import Base
    from ratchet.weights.run import TrainingMethod


class WeightsAlgorithm(ABC):
    """Trains an adapter of the agent's model; the best one on val is the candidate.

    Args:
        name: The algorithm's name.
        lora: Shape of the adapter.
        optimizer: Of its training.
        seed: Of the adapter's first weights and of the order of the data.
    """

    critic_learning_rate: float | None = None
    """Whether the learner gets a critic."""

    def __init__(self, name: str, *, lora: LoRA, optimizer: Optimizer, seed: int) -> None:
        self.name = name
        self.seed = seed
        self._lora = lora
        self._optimizer = optimizer
        self.model: TrainableModel | None = None
        """The model to train; set by whoever runs the algorithm."""

    @abstractmethod
    def rollouts(self, lab: Lab) -> int:
        """Rollouts that the smallest training takes, with both comparisons on val."""

    @abstractmethod
    async def method(
        self, lab: Lab, model: TrainableModel, base: Base, name: str, resource: Model
    ) -> TrainingMethod:
        """The training data.

        Args:
            lab: The lab.
            model: The model that is trained.
            base: Its weights in this process.
            name: Name of the baseline's model.
            resource: The baseline's model.

        Raises:
            InputError: Nothing can be learned from.
            BudgetExhausted: The budget does not cover the rollouts.
        """

    async def learn(self, lab: Lab) -> Finding:
        """Train on the train tasks, and compare the best weights with the baseline on val.

        Raises:
            InputError: The agent's model cannot be trained, or nothing can be learned from.
            BudgetExhausted: The budget does not cover the rollouts.
        """
        for split, tasks in (("train", lab.train), ("val", lab.val)):
            if not tasks:
                raise InputError(f"There are no {split} tasks.", hint="Change split under [tasks].")
        limit, needed = lab.budget.rollouts, self.rollouts(lab)
        if limit is not None and limit < needed:
            raise BudgetExhausted(
                f"The budget of {limit} rollouts does not cover {self.name}: it takes {needed} on"
                f" {len(lab.train)} train and {counted(len(lab.val), 'val task')}.",
                hint="Raise rollouts under [improve.budget], or max_rollouts of Trainer.",
            )
        model = self.model
        if model is None:
            raise InputError(
                f"The algorithm {self.name} trains a model on this machine, but none is "
                "configured.",
                hint='Set it in ratchet.toml:\n\n[agent]\nmodel = "local"\n',
            )
        name, resource = trainable_resource(lab.baseline)
        before = mean(await lab.evaluate(lab.baseline, lab.val))
        sentence, adapter = await self._trained(lab, model, name, resource)
        lab.note(sentence)
        if adapter is None:
            return Finding(
                best=lab.baseline,
                baseline_val=before,
                best_val=before,
                proposals=0,
                sentence=f"No trained weights were better than the base model. {sentence}",
                ended="idle",
            )
        candidate = lab.propose(
            {name: with_adapter(resource, adapter)}, algorithm=self.name, reason=sentence
        )
        after = mean(await lab.evaluate(candidate, lab.val))
        better = after > before
        lab.judged(
            Proposal(
                number=0,
                candidate_id=candidate.id,
                value=after,
                tasks=len(lab.val),
                best=max(after, before),
                rollouts=lab.spent.rollouts,
                parents=candidate.parents,
                algorithm=self.name,
                reason=candidate.reason,
                accepted=f"On val {before:.3f} → {after:.3f}." if better else "",
            )
        )
        return Finding(
            best=candidate if better else lab.baseline,
            baseline_val=before,
            best_val=max(after, before),
            proposals=1,
            sentence=f"The agent on val: {before:.3f} → {after:.3f}. {sentence}",
            ended="limit",
        )

    async def _trained(
        self, lab: Lab, model: TrainableModel, name: str, resource: Model
    ) -> tuple[str, Adapter | None]:
        """Train, or continue where a killed run stopped; None if nothing was better."""
        from ratchet.weights.learner import Learner
        from ratchet.weights.run import TrainingRun

        base = await asyncio.to_thread(model.load_base)
        method = await self.method(lab, model, base, name, resource)

        def learner() -> Learner:
            return Learner(
                base,
                lora=self._lora,
                optimizer=self._optimizer,
                seed=self.seed,
                critic_learning_rate=self.critic_learning_rate,
            )

        run = TrainingRun(
            model.run_folder(lab, self.name),
            await asyncio.to_thread(learner),
            method,
            starts_fresh=False,
        )
        result = await run.run()
        if result.step == 0:
            return result.sentence, None
        recipe: dict[str, Any] = {"algorithm": self.name, "steps": result.step, **method.recipe}
        adapter = model.keep(result.adapter, base, recipe)
        model.serve(adapter)
        return result.sentence, adapter


def with_adapter(resource: Model, adapter: Adapter) -> Model:
    """A model with trained weights, under their served name."""
    return msgspec.structs.replace(resource, model=served_name(adapter.hash), adapter=adapter)


def trainable_resource(baseline: Candidate) -> tuple[str, Model]:
    """The model of a candidate, by name.

    Raises:
        InputError: There is none, or there are several.
    """
    models = [(n, r) for n, r in baseline.resources.items() if isinstance(r, Model)]
    if len(models) != 1:
        model_count = counted(len(models), "model") if models else "no model"
        raise InputError(
            f"The agent declares {model_count}, but exactly one is trained.",
            hint='Declare it in the agent: MODEL = ratchet.model("model", "local"), and send'
            " MODEL.model with each request; or run the agent as a command, which needs no change.",
        )
    return models[0]
