"""An ensemble of models and the bandit that distributes calls among them."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence

import msgspec

from ratchet.types import ConfigError, content_hash

MIN_WEIGHTED_SHARE = 0.1
"""Minimum share of the calls drawn by weight, so that every model stays in use and an
improvement is noticed."""

PRIOR = 8.0
"""Number of credits after which half of the calls are drawn by survival."""

CREDIT_DECAY = 0.99
"""Decay of earlier credits at each new one. Proposals survive less often as a search proceeds, and
a model must not be judged by when it was called."""


class CoachModel(msgspec.Struct, frozen=True, kw_only=True):
    """A coach's model, with its endpoint."""

    name: str
    """Name at the endpoint, or `litellm:` followed by litellm's name."""
    weight: float = 1.0
    """Initial share of the calls, relative to the other models' weights."""
    base_url: str | None = None
    """OpenAI-compatible endpoint including its version. Default: the provider in the name, else
    `OPENAI_BASE_URL`, else OpenAI."""
    key_env: str | None = None
    """Environment variable of the endpoint's key. Default: the provider's, else
    `OPENAI_API_KEY`."""
    temperature: float | None = None
    """Sampling temperature; the coach's by default."""
    max_tokens: int | None = None
    """Maximum number of tokens in one answer; the coach's by default."""
    input_price: float | None = None
    """Dollars per million input tokens, for a model without a published price."""
    output_price: float | None = None
    """Dollars per million output tokens."""


class _Record(msgspec.Struct):
    survived: float = 0.0
    rejected: float = 0.0


class Ensemble:
    """Draws models: first by weight, then increasingly by how often their proposals survive.

    Thompson sampling with forgetting: each draw samples a survival probability from each model's
    Beta posterior and selects the highest. Sources: Thompson 1933; Chapelle & Li 2011, "An
    empirical evaluation of Thompson sampling"; the forgetting is Raj & Kalyani 2017, "Taming
    non-stationary bandits".

    A draw depends on the seed, the call and the credits so far, not on the number of earlier draws.
    A resumed run, whose first calls are replayed from the journal, therefore draws as an
    uninterrupted one does.

    Args:
        models: At least one; names are unique.
        seed: Seed of the draws.

    Raises:
        ConfigError: There is no model, a name is repeated, or a weight is not a positive number.
    """

    def __init__(self, models: Sequence[CoachModel], seed: int = 0) -> None:
        names = [model.name for model in models]
        if not names:
            raise ConfigError("A coach needs at least one model.")
        for model in models:
            if not model.name.strip():
                raise ConfigError("A model of the coach has no name.")
            if names.count(model.name) > 1:
                raise ConfigError(f"The coach's model {model.name!r} is listed twice.")
            if not (math.isfinite(model.weight) and model.weight > 0):
                raise ConfigError(
                    f"The weight {model.weight} of the coach's model {model.name!r} is not a"
                    " positive number."
                )
        self.models = {model.name: model for model in models}
        self._seed = seed
        self._records = {name: _Record() for name in names}
        self._credits = 0

    def draw(self, about: str, without: Collection[str] = ()) -> CoachModel:
        """Draw a model.

        Args:
            about: Key of the call; equal keys draw the same model after equal credits.
            without: Names of excluded models; not all of them.
        """
        left = [model for name, model in self.models.items() if name not in without]
        if len(left) == 1:
            return left[0]
        rng = random.Random(content_hash([self._seed, about, self._credits]))  # noqa: S311
        if rng.random() < max(MIN_WEIGHTED_SHARE, PRIOR / (PRIOR + self._credits)):
            return rng.choices(left, [model.weight for model in left])[0]
        samples = {model.name: self._sample(model.name, rng) for model in left}
        return max(left, key=lambda model: samples[model.name])

    def credit(self, name: str, survived: bool) -> None:
        """Credit a model for a proposal; unknown names are ignored."""
        if name not in self._records:
            return
        self._credits += 1
        for record in self._records.values():
            record.survived *= CREDIT_DECAY
            record.rejected *= CREDIT_DECAY
        if survived:
            self._records[name].survived += 1
        else:
            self._records[name].rejected += 1

    def _sample(self, name: str, rng: random.Random) -> float:
        record = self._records[name]
        return rng.betavariate(1 + record.survived, 1 + record.rejected)
