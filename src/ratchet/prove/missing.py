"""What a missing score counts as in a decision.

A score can be missing for a reason that depends on the answer: the judge was undecided, the
rollout ended without a result. If such pairs were dropped, a candidate could gain by giving answers
that nobody can score. So a missing side counts as the worst value against the claim under test, and
a known side keeps its score:

- for "better" the candidate's is 0 and the baseline's 1;
- for "worse" and for "no relevant gain" the candidate's is 1 and the baseline's 0;
- for a guardrail, the pair is the largest possible worsening.

Each test then bets on numbers that are no more favourable to its claim than the true ones, so its
error stays within its level whatever the reasons are (worst-case bounds: Manski, "Nonparametric
bounds on treatment effects", 1990).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

MissingRule: TypeAlias = Literal["worst", "skip"]
"""worst: as above. skip: the pair is dropped, and the candidate cannot pass if more than
`SKIP_LIMIT` of them are; only evidence that was written under that rule is recomputed with it."""

SKIP_LIMIT = 0.1
"""Share of dropped pairs above which the rule `skip` promotes nothing."""


AGAINST_BETTER = (1.0, 0.0)
"""What a missing baseline score and a missing candidate score count as for the claim "better"."""

AGAINST_WORSE = (0.0, 1.0)
"""What they count as for the claims "worse" and "no relevant gain"."""


def gain_against_better(baseline: float | None, candidate: float | None) -> float:
    """Candidate minus baseline, in [-1, 1], as the claim "better" must count it."""
    return _gain(baseline, candidate, AGAINST_BETTER)


def gain_against_worse(baseline: float | None, candidate: float | None) -> float:
    """Candidate minus baseline, in [-1, 1], as the claims of harm and futility count it."""
    return _gain(baseline, candidate, AGAINST_WORSE)


def _gain(baseline: float | None, candidate: float | None, fill: tuple[float, float]) -> float:
    before = fill[0] if baseline is None else baseline
    after = fill[1] if candidate is None else candidate
    return after - before
