"""The smallest margin that so many pairs can prove: it passes, and a smaller one does not."""

from __future__ import annotations

import msgspec
import pytest

from ratchet.prove import Comparison, ExperimentPlan, Guardrail, PairedScore, level
from ratchet.prove.smallest_margin import passes, smallest_margin

DEFAULTS = (
    Guardrail("errors", 0.1),
    Guardrail("latency", 0.5, unit="s", aggregate="relative", floor=0.1),
    Guardrail("cost", 0.25, unit="USD", aggregate="relative"),
)
ALPHAS = (0.05, level(0.05, ()), level(0.05, (False,) * 20))


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("pairs", [10, 20, 25, 60, 200])
@pytest.mark.parametrize("guardrail", DEFAULTS, ids=lambda guardrail: guardrail.metric)
def test_it_is_the_smallest_that_passes_and_at_least_the_default(
    guardrail: Guardrail, pairs: int, alpha: float
) -> None:
    fitted = smallest_margin(guardrail, alpha=alpha, pairs=pairs)
    assert fitted.margin >= guardrail.margin
    if not passes(fitted.bound, alpha=alpha, pairs=pairs):
        assert fitted == guardrail, "no margin passes, so it stays"
        return
    if fitted.margin > guardrail.margin:
        closer = msgspec.structs.replace(fitted, margin=fitted.margin - 0.01)
        assert not passes(closer.bound, alpha=alpha, pairs=pairs)


def test_a_wider_margin_never_passes_later() -> None:
    bounds = [number / 200 for number in range(1, 199)]
    for pairs in (8, 15, 40):
        known = [passes(bound, alpha=ALPHAS[1], pairs=pairs) for bound in bounds]
        assert known == sorted(known)


def test_a_candidate_without_errors_is_promoted_within_the_planned_pairs() -> None:
    alpha = level(0.05, ())
    for pairs in (10, 14, 25):
        guardrails = tuple(smallest_margin(each, alpha=alpha, pairs=pairs) for each in DEFAULTS)
        comparison = Comparison(ExperimentPlan(alpha=alpha, max_pairs=pairs, guardrails=guardrails))
        metrics: dict[str, tuple[float | None, float | None]] = {
            "errors": (0.0, 0.0),
            "latency": (1.0, 1.0),
            "cost": (0.01, 0.01),
        }
        for number in range(pairs):
            if comparison.observe(PairedScore(str(number), 0.0, 1.0, metrics)):
                break
        assert comparison.verdict == "promote"
