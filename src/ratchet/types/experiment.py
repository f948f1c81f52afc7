"""Experiments and decisions: a candidate against the baseline on tasks that learning never saw."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Verdict: TypeAlias = Literal["promote", "harm", "futile", "no_gain", "guardrail"]
"""promote: proved better, guardrails hold. harm: proved worse. futile: proved that the gain, if
any, is below the smallest worth having. no_gain: the tasks ran out. guardrail: better, but a
guardrail was not proved to hold, or its metric not measured."""


class GuardrailResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether "worse than the margin" was rejected for one metric."""

    metric: str
    margin: float
    unit: str
    baseline: float | None
    """Mean over the pairs in which both sides were measured; None when there are too few."""
    candidate: float | None
    """Mean over the same pairs; None when there are too few."""
    e_value: float
    """Evidence against "worse than the margin"."""
    passed: bool

    @property
    def measured(self) -> bool:
        """Whether the metric was measured in enough pairs to say anything of it."""
        return self.baseline is not None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """How an experiment ended."""

    verdict: Verdict
    metric: str
    alpha: float
    """Level this experiment was given, out of the stream's budget."""
    pairs: int
    """Pairs consumed when it was decided."""
    baseline: float
    """Mean score over those pairs."""
    candidate: float
    """Mean score over those pairs."""
    e_value: float
    """Largest e-value reached against "no better than the baseline"."""
    interval: tuple[float, float]
    """Anytime-valid confidence interval of the mean gain, at level 1 - alpha."""
    guardrails: tuple[GuardrailResult, ...] = ()
    sentence: str = ""
    """The decision in words, for people."""


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """A paired comparison of a candidate with the baseline, and how it ended."""

    id: str
    run_id: str
    baseline_id: str
    candidate_id: str
    dataset_version: str
    stream: str
    """The experiments among which `alpha` is shared; JSON of project, agent and objective."""
    history: tuple[bool, ...]
    """Of each experiment that began before in the stream, oldest first, whether it had promoted its
    candidate when this one began. The level follows from it and does not change any more."""
    alpha: float
    """The level: how likely a candidate that is no better may be promoted."""
    created_at: float
    decision: Decision | None = None
    evidence_path: str = ""
