"""Evaluators of a rollout's latency and cost."""

from __future__ import annotations

from ratchet.llm import why_unknown
from ratchet.types import InputError, Rollout
from ratchet.worker.evaluator import FunctionEvaluator, Unscored


def latency(*, within: float | None = None) -> FunctionEvaluator:
    """Seconds from the agent's call to its return.

    Args:
        within: If set, score 1 if the agent took at most this many seconds, else 0.

    Raises:
        InputError: `within` is not positive.
    """
    _positive("within", within)

    def judge(rollout: Rollout) -> float:
        if rollout.duration_s is None:
            raise Unscored("The rollout has no duration.")
        return rollout.duration_s if within is None else float(rollout.duration_s <= within)

    unit = "s" if within is None else ""
    return FunctionEvaluator(
        judge,
        name="latency",
        unit=unit,
        options={"within": within},
        trusted=True,
        basis="measurement",
    )


def cost(*, within: float | None = None) -> FunctionEvaluator:
    """Dollars spent on model calls.

    Args:
        within: If set, score 1 if the rollout cost at most this many dollars, else 0.

    Raises:
        InputError: `within` is not positive.
    """
    _positive("within", within)

    def judge(rollout: Rollout) -> float:
        usd = rollout.cost_usd
        if usd is None:
            why = "; ".join(map(why_unknown, rollout.unpriced or ("",)))
            raise Unscored(f"The cost was not measured: {why}.")
        return usd if within is None else float(usd <= within)

    unit = "USD" if within is None else ""
    return FunctionEvaluator(
        judge, name="cost", unit=unit, options={"within": within}, trusted=True, basis="measurement"
    )


def _positive(name: str, value: float | None) -> None:
    if value is not None and not value > 0:
        raise InputError(f"{name} = {value} must be a positive number.")
