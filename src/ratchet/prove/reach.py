"""Whether an experiment can prove anything at all with the pairs that there are."""

from __future__ import annotations

from ratchet.prove.comparison import Comparison
from ratchet.prove.plan import PairedScore, Plan


def pairs_at_best(plan: Plan) -> int | None:
    """Pairs that a perfect candidate takes against a baseline that never scores.

    The candidate is the same as the baseline in every guardrail metric.

    Returns:
        The pairs, or None when not even that candidate is promoted within `plan.max_pairs`.
    """
    comparison = Comparison(plan)
    metrics = {guardrail.metric: (1.0, 1.0) for guardrail in plan.guardrails}
    for number in range(plan.max_pairs):
        verdict = comparison.observe(PairedScore(str(number), 0.0, 1.0, dict(metrics)))
        if verdict is not None:
            return comparison.scored if verdict == "promote" else None
    return None
