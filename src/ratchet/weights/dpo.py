"""DPO: the better of two answers becomes more likely than the worse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ratchet.types import InputError, content_hash
from ratchet.weights.example_checks import check_examples
from ratchet.weights.examples import PreferencePair, TokenExample
from ratchet.weights.learner import Learner
from ratchet.weights.metrics import ValResult, validation_of
from ratchet.weights.reading import Reading
from ratchet.weights.rollouts import drawn, recipe_of
from ratchet.weights.settings import DPO, Schedule


class Preferences:
    """Direct preference optimisation against the base model.

    The loss of a pair is −log σ(β·(d_chosen − d_rejected)), with d the log-probability of the
    masked tokens less that under the base. Source: Rafailov et al., "Direct preference
    optimization", NeurIPS 2023, equation 7. To it is added `nll` times the mean negative
    log-probability of the chosen answer's tokens: the loss of a pair alone falls too where both
    answers become unlikely, and then a third is given. Source: Pang et al., "Iterative reasoning
    preference optimization", NeurIPS 2024, equation 1.

    Args:
        settings: Of the method.
        train: Pairs to learn.
        val: Pairs whose loss chooses the best weights; of tasks that are not in `train`.

    Raises:
        InputError: There is nothing to learn.
    """

    lag = None
    patience = None
    max_rise = 2.0
    """Nats per pair; the loss begins at log 2."""

    def __init__(
        self, settings: DPO, train: Sequence[PreferencePair], val: Sequence[PreferencePair]
    ) -> None:
        if not train:
            raise InputError("There is no pair to learn from.")
        self._settings = settings
        self._train = tuple(train)
        self._val = tuple(val)

    @property
    def schedule(self) -> Schedule:
        """Steps, validations, checkpoints and seed."""
        return self._settings.schedule

    @property
    def recipe(self) -> dict[str, Any]:
        """Settings and hashes of the pairs."""
        return {
            **recipe_of(self._settings),
            "pairs": content_hash([_content(pair) for pair in self._train]),
            "held-out pairs": content_hash([_content(pair) for pair in self._val]),
        }

    async def batch(
        self, step: int, adapters: Callable[[int], Path | None]
    ) -> list[tuple[int, PreferencePair]]:
        """The pairs of a step, with their indices."""
        indices = drawn(self._settings.batch, len(self._train), step, self.schedule.seed)
        return [(i, self._train[i]) for i in indices]

    def train(
        self, learner: Learner, batch: Any, step: int, versions: dict[str, int]
    ) -> dict[str, Any]:
        """Take an optimizer step."""
        import torch

        pairs: list[PreferencePair] = [pair for _, pair in batch]
        check_examples(learner, ((f"Pair {i}", side) for i, pair in batch for side in _sides(pair)))
        base = _margins(learner, pairs, of_base=True)

        def objective(reading: Reading, indices: Sequence[int]) -> tuple[Any, dict[str, float]]:
            sums = torch.stack([part.sum() for part in reading.logprobs.split(reading.counts)])
            reference = torch.tensor(base[list(indices)], dtype=sums.dtype, device=sums.device)
            margins = self._settings.beta * (sums[0::2] - sums[1::2] - reference)
            loss = -torch.nn.functional.logsigmoid(margins).sum() / len(pairs)
            if self._settings.nll:
                tokens = torch.tensor(reading.counts[0::2], dtype=sums.dtype, device=sums.device)
                loss = loss - self._settings.nll * (sums[0::2] / tokens).sum() / len(pairs)
            return loss, {
                "accuracy": float((margins > 0).sum()) / len(pairs),
                "margin": float(margins.detach().sum()) / len(pairs),
            }

        metrics = learner.step([_sides(pair) for pair in pairs], objective)
        tokens = sum(sum(map(bool, side.mask)) for pair in pairs for side in _sides(pair))
        return {**metrics, "tokens": tokens, "pairs": len(pairs), "taught": True}

    async def validate(self, learner: Learner, adapter: Path | None, step: int) -> ValResult | None:
        """The negative loss of the held-out pairs."""
        if not self._val:
            return None
        sides = (
            (f"Held-out pair {i}", side)
            for i, pair in enumerate(self._val)
            for side in _sides(pair)
        )
        check_examples(learner, sides)
        return await asyncio.to_thread(self._measure, learner)

    def _measure(self, learner: Learner) -> ValResult | None:
        of_base = _margins(learner, self._val, of_base=True)
        logprobs = learner.evaluate([side for pair in self._val for side in _sides(pair)]).logprobs
        margins = self._settings.beta * (_differences(logprobs) - of_base)
        likely = np.array([chosen.mean(dtype=np.float64) for chosen in logprobs[0::2]])
        losses = np.logaddexp(0.0, -margins) - self._settings.nll * likely
        return validation_of((-losses).tolist())

    async def close(self) -> None:
        """Nothing runs."""


def _margins(
    learner: Learner, pairs: Sequence[PreferencePair], *, of_base: bool = False
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Log-probability of each pair's chosen answer minus that of the rejected; shape (pairs,)."""
    rows = [side for pair in pairs for side in _sides(pair)]
    return _differences(learner.evaluate(rows, of_base=of_base).logprobs)


def _differences(
    pair_logprobs: Sequence[np.ndarray[Any, Any]],
) -> np.ndarray[Any, np.dtype[np.float64]]:
    sums = np.array([logprobs.sum(dtype=np.float64) for logprobs in pair_logprobs])
    return np.asarray(sums[0::2] - sums[1::2])


def _sides(pair: PreferencePair) -> tuple[TokenExample, TokenExample]:
    return pair.chosen, pair.rejected


def _content(pair: PreferencePair) -> list[Any]:
    return [[list(map(int, side.ids)), list(map(int, side.mask))] for side in _sides(pair)]
