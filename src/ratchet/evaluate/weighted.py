"""An evaluator that combines others: the weighted mean of their scores."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.types import ConfigError, Rollout, Span
from ratchet.worker.evaluator import FunctionEvaluator, Judgement, Unscored

NAME = "weighted"
"""The value of `use` under [[evaluators]]."""


class WeightedEvaluator(FunctionEvaluator):
    """The weighted mean of other evaluators' scores; missing if one of them is missing.

    It rests on the weakest of them: it is a judge if one is.

    Args:
        parts: The evaluators by name, all with scores in [0, 1].
        weights: Positive weight by name, for each of them.
        name: Its name.

    Raises:
        ConfigError: A weight names no evaluator, is not positive, or one has a unit.
    """

    def __init__(
        self, parts: Mapping[str, FunctionEvaluator], weights: Mapping[str, Any], name: str
    ) -> None:
        self._weights = _checked(parts, weights, name)
        self._parts = {part: parts[part] for part in self._weights}
        used = list(self._parts.values())

        async def judge(rollout: Rollout, spans: list[Span]) -> Judgement:
            scores = await asyncio.gather(*(part.score(rollout, lambda _: spans) for part in used))
            for score in scores:
                if score.value is None:
                    raise Unscored(f"{score.evaluator} has no score: {score.error}")
            values = {score.evaluator: score.value or 0.0 for score in scores}
            total = math.fsum(self._weights.values())
            mean = math.fsum(values[part] * weight for part, weight in self._weights.items())
            said = [f"{part} {values[part]:.3g}" for part in values]
            reasons = [
                f"{score.evaluator}: {score.rationale}" for score in scores if score.rationale
            ]
            return Judgement(mean / total, ". ".join([", ".join(said), *reasons]))

        super().__init__(
            judge,
            name=name,
            options={"weights": self._weights, "parts": [part.version for part in used]},
            basis=_weakest(used),
            timeout_s=math.fsum(part.timeout_s for part in used),
        )
        self.needs_expected = any(part.needs_expected for part in used)
        self.is_judge = any(part.is_judge for part in used)

    @property
    def reads_expected(self) -> bool:
        """Whether one of its parts uses the expected answer."""
        return any(part.reads_expected for part in self._parts.values())

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that its parts call."""
        return tuple(dict.fromkeys(m for part in self._parts.values() for m in part.models))


def _checked(
    parts: Mapping[str, FunctionEvaluator], weights: Mapping[str, Any], name: str
) -> dict[str, float]:
    if not isinstance(weights, Mapping) or len(weights) < 2:
        raise ConfigError(
            f"The evaluator {name!r} needs the weights of at least two others.",
            hint="For example: weights = { exact_match = 0.7, tone = 0.3 }",
        )
    unknown = [part for part in weights if part not in parts]
    if unknown:
        raise ConfigError(
            f"The evaluator {name!r} weights {', '.join(map(repr, unknown))}, which"
            f" {'is not an evaluator' if len(unknown) == 1 else 'are not evaluators'} here;"
            f" the evaluators are {', '.join(parts)}.",
        )
    for part, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not weight > 0:
            raise ConfigError(f"The evaluator {name!r}: the weight of {part!r} is not positive.")
        if parts[part].unit:
            raise ConfigError(
                f"The evaluator {name!r} weights {part!r}, which is measured in"
                f" {parts[part].unit}; weights are for scores in [0, 1].",
                hint="Give it a limit (within = …), or make it a guardrail.",
            )
    return {part: float(weight) for part, weight in weights.items()}


def _weakest(parts: Sequence[FunctionEvaluator]) -> Any:
    bases = {part.basis for part in parts}
    return bases.pop() if len(bases) == 1 else "opinion" if "opinion" in bases else "comparison"
