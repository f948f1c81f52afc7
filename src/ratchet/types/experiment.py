"""Experiments and decisions: a candidate against the baseline on tasks unseen by learning."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ratchet.types.interval_text import interval_ends
from ratchet.types.notebook import table_html

Verdict: TypeAlias = Literal[
    "promote", "harm", "futile", "no_gain", "not_proved", "guardrail", "unconfirmed"
]
"""promote: proved better, guardrails hold. harm: proved worse. futile: the gain, if any, is proved
to be below the smallest gain worth having. no_gain: the tasks ran out. not_proved: they ran out,
and were too few to prove the gain that was seen. guardrail: proved better,
but a guardrail or a frozen set was not proved to hold, or its metric was not measured. unconfirmed:
better by a judge's scores, but not proved so by people's labels. With a margin, better means "not
worse by the margin", and worse "worse by the margin"."""


MAX_REPETITIONS = 100
"""Maximum number of times that an experiment runs a task with each candidate."""


class GuardrailResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of testing "worse than the margin" for one metric."""

    metric: str
    margin: float
    unit: str
    baseline: float | None
    """Mean over the pairs in which both sides were measured; None if there are none."""
    candidate: float | None
    """Mean over the same pairs; None if there are none."""
    e_value: float
    """Evidence against "worse than the margin"."""
    relative: bool = False
    """Whether the margin is a share of the baseline's value."""
    passed: bool

    @property
    def margin_text(self) -> str:
        """The margin with its unit: `0.1`, `0.5 s`, `25 %`."""
        if self.relative:
            return f"{100.0 * self.margin:.4g} %"
        return f"{self.margin:.4g} {self.unit}".rstrip()

    @property
    def measured(self) -> bool:
        """Whether the metric was measured in any pair."""
        return self.baseline is not None


class FrozenResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of testing "worse than the margin" on the frozen set of one fixed problem."""

    set_id: str
    problem_id: str
    title: str
    """The problem's title."""
    tasks: int
    """Number of tasks from which the draws were taken."""
    draws: int
    """Draws that were run, each once with each candidate, including those without a score."""
    missing: int = 0
    """Number of draws without a score on one side."""
    margin: float
    """The smallest unacceptable mean loss, in points of the score."""
    baseline: float | None
    """Mean score over the draws in which both sides were scored; None if there are none."""
    candidate: float | None
    """Mean score over the same draws; None if there are none."""
    e_value: float
    """Evidence against "worse than the margin"."""
    passed: bool
    broken: tuple[str, ...] = ()
    """Ids of the tasks that the baseline gets right and the candidate gets wrong; right means
    that the mean over the scored draws is at least `RIGHT_FROM`."""
    fixed: tuple[str, ...] = ()
    """Ids of the tasks for which it is the other way round."""


class LabelledGain(msgspec.Struct, frozen=True, kw_only=True):
    """What people's labels say about the gain that a judge has measured."""

    wanted: int
    """Number of pairs that were drawn to be labelled."""
    labelled: int
    missing: int
    """Drawn pairs that were passed over without labels."""
    e_value: float
    """Evidence of the labels against "no better than the baseline"."""
    confirmed: bool
    """Whether it reached the e-value that the experiment's level requires."""
    gain: float | None = None
    """The mean gain in labels, estimated from labels and judge by PPI++; None if unknown."""
    interval: tuple[float, float] | None = None
    """Its 95 % confidence interval."""
    judge_bias: float | None = None
    """How far the judge's gain exceeds the labels' on the labelled pairs."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of an experiment."""

    verdict: Verdict
    metric: str
    alpha: float
    """Level assigned to this experiment from the stream's budget."""
    pairs: int
    """Pairs used when the decision was made, including those without a score."""
    missing: int = 0
    """Number of pairs without a score on one side."""
    more_pairs: int = 0
    """About how many more pairs would prove the gain seen so far, if `not_proved`; else 0."""
    baseline: float
    """Mean score over those pairs."""
    candidate: float
    """Mean score over those pairs."""
    margin: float = 0.0
    """How much lower the candidate may score if it must be proved no worse; 0 if it must be
    better."""
    e_value: float
    """Largest e-value reached against "no better than the baseline"; with a margin, against "worse
    by the margin"."""
    interval: tuple[float, float]
    """Anytime-valid confidence interval of the mean gain, at level 1 - alpha."""
    guardrails: tuple[GuardrailResult, ...] = ()
    sentence: str = ""
    """The decision as a sentence for display."""
    repetitions: int = 1
    """How often each task was run with each candidate; above 1, a pair compares means."""
    labelled: LabelledGain | None = None
    """What people's labels say, if the metric is a judge's; else None."""
    frozen: tuple[FrozenResult, ...] = ()
    """The frozen sets that were run once everything else was proved; empty if none were."""


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """A paired comparison of a candidate with the baseline, and its decision."""

    id: str
    run_id: str
    baseline_id: str
    candidate_id: str
    dataset_version: str
    stream: str
    """Identifies the experiments that share `alpha`; JSON of project, agent and objective."""
    history: tuple[bool, ...]
    """For each earlier experiment of the stream, oldest first: whether it had promoted its
    candidate when this one began. It determines the level, so neither changes later."""
    alpha: float
    """The level: probability of promoting a candidate that is no better."""
    created_at: float
    decision: Decision | None = None
    evidence_path: str = ""

    def _repr_html_(self) -> str:
        decision = self.decision
        values: dict[str, object] = {"run": self.run_id, "candidate": self.candidate_id}
        if decision is not None:
            low, high = interval_ends(*decision.interval)
            values |= {
                "verdict": decision.verdict,
                "decision": decision.sentence,
                decision.metric: f"{decision.baseline:.3f} → {decision.candidate:.3f}",
                "gain": f"{decision.candidate - decision.baseline:+.3f} [{low}, {high}]",
                "e-value": f"{decision.e_value:.3g} ({1 / decision.alpha:.3g} needed)",
                "pairs": decision.pairs,
                "evidence": self.evidence_path,
            }
        return table_html(f"Experiment {self.id[:8]}", values)
