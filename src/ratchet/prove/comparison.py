"""A sequential paired comparison: each pair updates the e-values, until there is a verdict."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from ratchet.prove.audit import LabelAudit
from ratchet.prove.guardrails import Guardrail
from ratchet.prove.plan import MISSING_LIMIT, ExperimentPlan, PairedScore
from ratchet.stats.eprocess import EProcess
from ratchet.types import InputError, Verdict


class EValues(NamedTuple):
    """The e-values after one pair."""

    superiority: float
    """Against "the mean gain is zero or less"."""
    harm: float
    """Against "the mean gain is zero or more"."""
    futility: float
    """Against "the mean gain is `min_gain` or more"."""
    guardrails: tuple[float, ...]
    """Against "worse than the margin", in plan order."""
    labels: float = 1.0
    """Against "the mean gain in people's labels is zero or less"."""


class GuardrailState:
    """One guardrail's evidence and means so far."""

    __slots__ = ("baseline", "candidate", "guardrail", "missing", "pairs", "process")

    def __init__(self, guardrail: Guardrail, plan: ExperimentPlan) -> None:
        self.guardrail = guardrail
        self.process = EProcess(
            null=-guardrail.bound, threshold=1.0 / plan.alpha, horizon=plan.max_pairs
        )
        self.pairs = 0
        self.missing = 0
        self.baseline = 0.0
        self.candidate = 0.0

    def observe(self, sides: tuple[float | None, float | None] | None) -> None:
        before, after = sides if sides is not None else (None, None)
        if before is None or after is None:
            self.missing += 1
            self.process.skip()
            return
        self.process.observe(-self.guardrail.worsening(before, after))
        self.pairs += 1
        self.baseline += before
        self.candidate += after

    @property
    def measured(self) -> bool:
        """Whether the metric is known in enough of the scored pairs."""
        return self.pairs > 0 and not _too_many(self.missing, self.pairs)

    @property
    def passed(self) -> bool:
        return self.process.reached and self.measured


class Comparison:
    """Decides between a baseline and a candidate as pairs arrive.

    - **promote** as soon as "no better" is rejected at `alpha` and every guardrail passed;
    - **harm** as soon as "no worse" is rejected at `harm_alpha`;
    - **futile** as soon as "the gain is at least `min_gain`" is rejected at `futility_alpha`;
    - when the pairs run out: **guardrail** if "no better" was rejected and a guardrail had not
      passed, else **no_gain**.

    With labels in the plan, the scores are a judge's and cannot promote: the pairs always run out,
    and then it is **promote** if "no better" was rejected by scores and by labels, **unconfirmed**
    if by scores alone.

    Each null stays rejected from the first time its e-value reached the threshold (valid by Ville's
    inequality); from then on its bets are zero, so the values stay constant. The result does not
    depend on how often it is checked. To resume an interrupted comparison, replay its pairs in the
    same order.

    Args:
        plan: The rules.
    """

    def __init__(self, plan: ExperimentPlan) -> None:
        horizon = plan.max_pairs
        self.plan = plan
        self.verdict: Verdict | None = None
        """The final verdict; None while the comparison runs."""
        self.scored = 0
        """Pairs with both scores."""
        self.missing = 0
        """Pairs skipped because a score was unknown."""
        self.superiority = EProcess(threshold=1.0 / plan.alpha, horizon=horizon)
        self.harm = EProcess(threshold=1.0 / plan.harm_alpha, horizon=horizon)
        self.futility = EProcess(
            null=-plan.min_gain, threshold=1.0 / plan.futility_alpha, horizon=horizon
        )
        self.guardrails = tuple(GuardrailState(g, plan) for g in plan.guardrails)
        self.audit = LabelAudit(plan) if plan.labels else None
        """Evidence by people's labels; None when the scores need none."""
        self._baseline = 0.0
        self._candidate = 0.0
        self._pairs: list[PairedScore] = []
        self._path: list[EValues] = []

    @property
    def pairs(self) -> tuple[PairedScore, ...]:
        """The pairs so far, in order."""
        return tuple(self._pairs)

    @property
    def path(self) -> tuple[EValues, ...]:
        """The e-values after each pair."""
        return tuple(self._path)

    @property
    def means(self) -> tuple[float, float]:
        """Mean score of the baseline and of the candidate over the scored pairs; 0 without any."""
        if self.scored == 0:
            return 0.0, 0.0
        return self._baseline / self.scored, self._candidate / self.scored

    @property
    def too_many_missing(self) -> bool:
        """Whether too many scores are unknown to promote anything."""
        return _too_many(self.missing, self.scored)

    def observe(self, pair: PairedScore) -> Verdict | None:
        """Add the next pair; returns the verdict, or None to continue.

        Raises:
            InputError: The comparison is over, the pair has another number of repetitions than the
                plan, or a value that a guardrail cannot use.
        """
        if self.verdict is not None:
            raise InputError(
                f"Task {pair.task_id!r} came after the verdict {self.verdict!r}.",
                hint="A pair that was not part of the decision cannot be added to it.",
            )
        runs = max(1, len(pair.repetitions))
        if runs != self.plan.repetitions:
            raise InputError(
                f"Task {pair.task_id!r} has {runs} repetitions, the plan {self.plan.repetitions}.",
                hint="Every task of a comparison is run equally often.",
            )
        before, after = pair.baseline, pair.candidate
        if before is None or after is None:
            self._skip()
        else:
            for state in self.guardrails:
                state.observe(pair.metrics.get(state.guardrail.metric))
            difference = after - before
            self.superiority.observe(difference)
            self.harm.observe(-difference)
            self.futility.observe(-difference)
            self.scored += 1
            self._baseline += before
            self._candidate += after
        if self.audit is not None:
            self.audit.observe(pair)
        self._pairs.append(pair)
        self._path.append(
            EValues(
                self.superiority.value,
                self.harm.value,
                self.futility.value,
                tuple([state.process.value for state in self.guardrails]),
                1.0 if self.audit is None else self.audit.process.value,
            )
        )
        self.verdict = self._stop()
        if self.verdict is None and len(self._pairs) >= self.plan.max_pairs:
            self.verdict = self._exhausted()
        return self.verdict

    def finish(self) -> Verdict:
        """End the comparison without further pairs; returns the final verdict."""
        if self.verdict is None:
            self.verdict = self._exhausted()
        return self.verdict

    def _skip(self) -> None:
        self.missing += 1
        self.superiority.skip()
        self.harm.skip()
        self.futility.skip()
        for state in self.guardrails:
            state.process.skip()

    def _stop(self) -> Verdict | None:
        if self.harm.reached:
            return "harm"
        if self.scored < self.plan.min_pairs:
            return None
        if self.audit is None and self._better:
            return "promote"
        return "futile" if self.futility.reached else None

    @property
    def _better(self) -> bool:
        """Whether the scores promote."""
        if not self.superiority.reached or self.too_many_missing:
            return False
        return all(state.passed for state in self.guardrails)

    def _exhausted(self) -> Verdict:
        if self.superiority.reached and not all(state.passed for state in self.guardrails):
            return "guardrail"
        if self.audit is not None and self._better and self.scored >= self.plan.min_pairs:
            return "promote" if self.audit.confirmed else "unconfirmed"
        return "no_gain"


def _too_many(missing: int, scored: int) -> bool:
    return missing > MISSING_LIMIT * (missing + scored)


def differences(comparison: Comparison) -> list[float | None]:
    """Candidate minus baseline by pair; None where a score is unknown."""
    return [
        None if p.baseline is None or p.candidate is None else p.candidate - p.baseline
        for p in comparison.pairs
    ]


def replay(plan: ExperimentPlan, pairs: Iterable[PairedScore]) -> Comparison:
    """Replay pairs into a new comparison; pairs after its verdict are ignored."""
    comparison = Comparison(plan)
    for pair in pairs:
        if comparison.observe(pair) is not None:
            break
    comparison.finish()
    return comparison


def fewest_pairs_to_promote(plan: ExperimentPlan) -> int | None:
    """Pairs needed to promote a perfect candidate over a baseline that always scores 0.

    Assumes equal guardrail metrics.

    Returns:
        The number of pairs; None if not even that candidate is promoted within `plan.max_pairs`.
    """
    comparison = Comparison(msgspec.structs.replace(plan, repetitions=1, labels=0))
    metrics = {guardrail.metric: (1.0, 1.0) for guardrail in plan.guardrails}
    for number in range(plan.max_pairs):
        verdict = comparison.observe(PairedScore(str(number), 0.0, 1.0, dict(metrics)))
        if verdict is not None:
            return comparison.scored if verdict == "promote" else None
    return None
