"""The models of a coach: which of them is asked next, and how calls move to the better ones."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence

import msgspec

from ratchet.types import ConfigError, content_hash

FLOOR = 0.1
"""Share of the calls that goes by weight for ever: no model starves, and one that gets better is
noticed."""

PRIOR = 8.0
"""Credits after which half of the calls go by what survived."""

MEMORY = 0.99
"""What a credit counts of before, at each new one: proposals survive less often as a search goes
on, and a model is not to be judged by when it was asked."""


class CoachModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that a coach may ask."""

    name: str
    """As the endpoint calls it; or `litellm:` and the name that litellm has for it."""
    weight: float = 1.0
    """Its share of the calls while nothing is known, beside the weights of the others."""
    base_url: str | None = None
    """Of an OpenAI-compatible endpoint, with its version; that of the name's provider when left
    out, else `OPENAI_BASE_URL`, else OpenAI's."""
    key_env: str | None = None
    """Environment variable that holds the endpoint's key; that of the provider when left out, else
    `OPENAI_API_KEY`."""
    temperature: float | None = None
    """Of sampling; the coach's when left out."""
    max_tokens: int | None = None
    """Of one answer; the coach's when left out."""
    input_price: float | None = None
    """Dollars for a million tokens of input, for a model that nobody publishes a price of."""
    output_price: float | None = None
    """Dollars for a million tokens of output."""


class _Record(msgspec.Struct):
    survived: float = 0.0
    perished: float = 0.0


class Ensemble:
    """Draws models: by weight at first, and more and more by whose proposals survive.

    Thompson sampling with forgetting: each draw takes a chance of survival from each model's Beta
    posterior and asks the model whose is highest. Sources: Thompson 1933; Chapelle & Li 2011, "An
    empirical evaluation of Thompson sampling"; the forgetting is Raj & Kalyani 2017, "Taming
    non-stationary bandits".

    A draw depends on the seed, on what the call is about, and on the credits so far, not on how
    many draws were made before: a resumed run, whose first calls come from the journal, draws as
    the uninterrupted one.

    Args:
        models: At least one, each name once.
        seed: Of the draws.

    Raises:
        ConfigError: There is none, a name stands twice, or a weight is not a positive number.
    """

    def __init__(self, models: Sequence[CoachModel], seed: int = 0) -> None:
        names = [model.name for model in models]
        if not names:
            raise ConfigError("A coach needs at least one model.")
        for model in models:
            if not model.name.strip():
                raise ConfigError("A model of the coach has no name.")
            if names.count(model.name) > 1:
                raise ConfigError(f"The coach's model {model.name!r} is named twice.")
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
        """The model to ask.

        Args:
            about: What the call is about: the same text draws the same after the same credits.
            without: Names of models that cannot be asked; not all of them.
        """
        left = [model for name, model in self.models.items() if name not in without]
        if len(left) == 1:
            return left[0]
        chance = random.Random(content_hash([self._seed, about, self._credits]))  # noqa: S311
        if chance.random() < max(FLOOR, PRIOR / (PRIOR + self._credits)):
            return chance.choices(left, [model.weight for model in left])[0]
        samples = {model.name: self._sample(model.name, chance) for model in left}
        return max(left, key=lambda model: samples[model.name])

    def credit(self, name: str, survived: bool) -> None:
        """Count a proposal of a model; a name that is none of the ensemble's counts nothing."""
        if name not in self._records:
            return
        self._credits += 1
        for record in self._records.values():
            record.survived *= MEMORY
            record.perished *= MEMORY
        if survived:
            self._records[name].survived += 1
        else:
            self._records[name].perished += 1

    def _sample(self, name: str, chance: random.Random) -> float:
        record = self._records[name]
        return chance.betavariate(1 + record.survived, 1 + record.perished)
