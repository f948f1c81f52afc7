"""SFT: the tokens of good examples become more likely."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ratchet.types import InputError, content_hash
from ratchet.weights.example_checks import check_examples
from ratchet.weights.examples import TokenExample
from ratchet.weights.learner import Learner
from ratchet.weights.metrics import ValResult, validation_of
from ratchet.weights.reading import Reading
from ratchet.weights.rollouts import drawn, recipe_of
from ratchet.weights.settings import SFT, Schedule


class Imitation:
    """Supervised fine-tuning on the masked tokens: mean negative log-probability over a batch's
    tokens.

    Args:
        settings: Of the method.
        train: Examples to learn.
        val: Examples whose loss chooses the best weights; of tasks that are not in `train`.

    Raises:
        InputError: There is nothing to learn.
    """

    lag = None
    patience = None
    max_rise = 2.0
    """Nats per token."""

    def __init__(
        self, settings: SFT, train: Sequence[TokenExample], val: Sequence[TokenExample]
    ) -> None:
        if not train:
            raise InputError("There is no example to learn from.")
        self._settings = settings
        self._train = tuple(train)
        self._val = tuple(val)

    @property
    def schedule(self) -> Schedule:
        """Steps, validations, checkpoints and seed."""
        return self._settings.schedule

    @property
    def recipe(self) -> dict[str, Any]:
        """Settings and hashes of the examples."""
        return {
            **recipe_of(self._settings),
            "examples": content_hash([_content(example) for example in self._train]),
            "held-out examples": content_hash([_content(example) for example in self._val]),
        }

    async def batch(
        self, step: int, adapters: Callable[[int], Path | None]
    ) -> list[tuple[int, TokenExample]]:
        """The examples of a step, with their indices."""
        indices = drawn(self._settings.batch, len(self._train), step, self.schedule.seed)
        return [(i, self._train[i]) for i in indices]

    def train(
        self, learner: Learner, batch: Any, step: int, versions: dict[str, int]
    ) -> dict[str, Any]:
        """Take an optimizer step."""
        examples: list[TokenExample] = [example for _, example in batch]
        check_examples(learner, ((f"Example {i}", example) for i, example in batch))
        tokens = sum(sum(map(bool, example.mask)) for example in examples)

        def objective(reading: Reading, indices: Sequence[int]) -> tuple[Any, dict[str, float]]:
            return -reading.logprobs.sum() / tokens, {}

        metrics = learner.step([(example,) for example in examples], objective)
        return {**metrics, "tokens": tokens, "examples": len(examples), "taught": True}

    async def validate(self, learner: Learner, adapter: Path | None, step: int) -> ValResult | None:
        """The negative loss of the held-out examples, each counted once."""
        if not self._val:
            return None
        check_examples(
            learner, ((f"Held-out example {i}", example) for i, example in enumerate(self._val))
        )
        evaluation = await asyncio.to_thread(learner.evaluate, self._val)
        return validation_of([float(logprobs.mean()) for logprobs in evaluation.logprobs])

    async def close(self) -> None:
        """Nothing runs."""


def _content(example: TokenExample) -> list[Any]:
    return [[int(token) for token in example.ids], [int(bool(learned)) for learned in example.mask]]
