"""Stages on live traffic after the held-out experiment, and the decision at the end of each."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ratchet.types.experiment import GuardrailResult

LiveStage: TypeAlias = Literal["shadow", "canary", "watch"]

Observed: TypeAlias = LiveStage | Literal["old_model"]
"""Whose observations: a stage's, or those of a watch that asks the old model."""

StageVerdict: TypeAlias = Literal["pass", "harm", "hold", "inconclusive", "alarm", "drift"]
"""pass: proved not to be worse than the plan allows; for a watch: it ended without an alarm.
harm: proved worse. hold: the traffic cannot be trusted, because the arms do not have the planned
sizes, or scores are missing more in one arm than in the other. inconclusive: nothing was proved
before the traffic ran out, or the stage was ended early. alarm: the release got worse. drift:
the previous release got worse, too."""


class SubgroupResult(msgspec.Struct, frozen=True, kw_only=True):
    """A group of a stage's traffic."""

    group: str
    """Cluster or tag."""
    count: int
    """Pairs, or units with a score."""
    baseline: float | None
    """Mean score; None without any."""
    candidate: float | None
    """Mean score; None without any."""
    e_value: float
    """Evidence against "no worse in this group"."""
    harmed: bool
    """Whether the candidate is proved worse in this group, after correction for the number of
    groups."""


class StageDecision(msgspec.Struct, frozen=True, kw_only=True):
    """How a stage ended, or where it stands.

    In a watch, the candidate is the release and the baseline the control share; or the old model,
    where the alarm comes from the comparison with it.
    """

    stage: LiveStage
    verdict: StageVerdict | None
    """None while the stage runs."""
    metric: str
    """The metric of the verdict: the objective, or for an alarm the metric that got worse."""
    alpha: float
    """Probability of a wrong `pass`; for a watch, of a false alarm."""
    baseline_count: int
    """Pairs, units or outcomes with a score."""
    candidate_count: int
    baseline: float | None
    """Mean score; None without any."""
    candidate: float | None
    """Mean score; None without any."""
    e_value: float
    """Evidence for `pass`, against "worse than the plan allows"; for a watch, for an alarm."""
    needed: float
    """The e-value that `pass` requires, or in a watch an alarm."""
    harm_e_value: float = 1.0
    """Evidence for harm."""
    harm_needed: float = 0.0
    """The e-value that `harm` requires; 0 in a watch."""
    interval: tuple[float, float] | None = None
    """Confidence interval of the mean difference at level 1 - alpha; None if it does not hold
    yet, and in a watch."""
    missing: int = 0
    """Pairs, units or outcomes without a score; for a canary on feedback, units without
    feedback."""
    blocked: int = 0
    """Pairs whose candidate was stopped at a side effect or left the recorded path."""
    guardrails: tuple[GuardrailResult, ...] = ()
    sample_ratio_e_value: float | None = None
    """For a canary: evidence that the arms do not have the planned sizes."""
    missing_e_value: float | None = None
    """For a canary: evidence that one arm lacks more scores than the other; None if scores are
    feedback."""
    subgroups: tuple[SubgroupResult, ...] = ()
    sentence: str = ""
    """The decision as sentences for display."""

    @property
    def passed(self) -> bool:
        """Whether the candidate may go on; not after an inconclusive or a held stage."""
        return self.verdict == "pass"

    @property
    def harmed_groups(self) -> tuple[str, ...]:
        """Groups in which the candidate is proved worse, whatever the verdict."""
        return tuple(result.group for result in self.subgroups if result.harmed)
