"""SFT and DPO in `ratchet improve`: the model learns from the baseline's own rollouts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ratchet.autopilot.lab_data import demonstrations, preferences
from ratchet.autopilot.trainable import TrainableModel
from ratchet.autopilot.weights_algorithm import WeightsAlgorithm
from ratchet.learn import Lab
from ratchet.types import InputError, Model, Task
from ratchet.types.wording import counted
from ratchet.weights.recorded_chat import NotTrainable
from ratchet.weights.rendered import rendered_example, rendered_pair
from ratchet.weights.settings import DPO, SFT, LoRA, Optimizer, Schedule

if TYPE_CHECKING:
    from ratchet.models.policy import Base
    from ratchet.weights.run import TrainingMethod

MAX_LEFT_OUT_REASONS = 3
"""Maximum number of listed reasons why data was left out."""

VALIDATIONS = 5
"""How often the weights are compared on val in a training run."""


class FineTuning(WeightsAlgorithm):
    """Learns answers to imitate (sft), or pairs of a better and a worse one (dpo).

    Args:
        method: sft or dpo.
        epochs: How often each example is learned.
        batch: Examples of a step.
        learning_rate: Of AdamW; by default 2e-4 for sft and 1e-5 for dpo.
        rank: Of the adapter.
        alpha: The adapter's scale is alpha / rank.
        min_score: sft: least score of a rollout whose own answers are learned.
        repetitions: dpo: rollouts of each task.
        gap: dpo: least difference between the scores of a pair.
        beta: dpo: how closely the model is held to the base.
        nll: dpo: weight of the better answer's own likelihood.
        seed: Of the adapter's first weights and the order of the data.

    Raises:
        ConfigError: A number is out of its range.
    """

    def __init__(
        self,
        method: Literal["sft", "dpo"],
        *,
        epochs: float = 3.0,
        batch: int = 16,
        learning_rate: float | None = None,
        rank: int = 16,
        alpha: int = 32,
        min_score: float = 0.8,
        repetitions: int = 4,
        gap: float = 0.2,
        beta: float = 0.1,
        nll: float = 1.0,
        seed: int = 0,
    ) -> None:
        if not (math.isfinite(epochs) and epochs > 0):
            raise InputError(f"epochs is {epochs}; it must be a number above 0.")
        if repetitions < 1 or not gap > 0:
            raise InputError("repetitions must be at least 1, and gap above 0.")
        rate = (2e-4 if method == "sft" else 1e-5) if learning_rate is None else learning_rate
        lora, optimizer = LoRA(rank=rank, alpha=alpha), Optimizer(learning_rate=rate)
        super().__init__(method, lora=lora, optimizer=optimizer, seed=seed)
        self._settings: SFT | DPO = (
            SFT(batch=batch, lora=lora, optimizer=optimizer)
            if method == "sft"
            else DPO(batch=batch, lora=lora, optimizer=optimizer, beta=beta, nll=nll)
        )
        self._epochs = epochs
        self._min_score, self._repetitions, self._gap = min_score, repetitions, gap

    def rollouts(self, lab: Lab) -> int:
        """Rollouts of the training run, with both comparisons on val."""
        times = 1 if self.name == "sft" else self._repetitions
        return times * (len(lab.train) + len(lab.val)) + len(lab.val)

    async def method(
        self, lab: Lab, model: TrainableModel, base: Base, name: str, resource: Model
    ) -> TrainingMethod:
        """The examples or pairs of the baseline's rollouts, as tokens."""
        from ratchet.weights.dpo import Preferences
        from ratchet.weights.sft import Imitation

        left_out: Counter[str] = Counter()
        train = await self._tokens(lab, lab.train, base, left_out)
        val = await self._tokens(lab, lab.val, base, left_out)
        for reason, count in left_out.most_common(MAX_LEFT_OUT_REASONS):
            lab.note(f"{count} left out of training: {reason}.")
        if not train:
            raise InputError(
                f"Nothing can be learned from the {counted(len(lab.train), 'train task')}.",
                hint="Lower the options min_score or gap, or give expected answers.",
            )
        what = "answers" if self.name == "sft" else "pairs"
        lab.note(f"Training on {len(train)} {what}, and checking on {len(val)}…")
        steps = max(1, math.ceil(self._epochs * len(train) / self._settings.batch))
        every = max(1, steps // VALIDATIONS)
        schedule = Schedule(steps=steps, validate_every=every, save_every=every, seed=self.seed)
        settings: Any = msgspec.structs.replace(self._settings, schedule=schedule)
        return (Imitation if self.name == "sft" else Preferences)(settings, train, val)

    async def _tokens(
        self, lab: Lab, tasks: Sequence[Task], base: Base, left_out: Counter[str]
    ) -> list[Any]:
        items: list[Any] = []
        if self.name == "sft":
            items += await demonstrations(lab, tasks, self._min_score, left_out)
        else:
            items += await preferences(lab, tasks, self._repetitions, self._gap, left_out)
        rendered: list[Any] = []
        for item in items:
            try:
                if self.name == "sft":
                    rendered += rendered_example(base.tokenizer, item)
                else:
                    rendered.append(rendered_pair(base.tokenizer, item))
            except NotTrainable as reason:
                left_out[str(reason)] += 1
        return rendered
