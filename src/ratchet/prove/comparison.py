"""A sequential paired comparison: each pair updates the e-values, until a verdict is reached."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from ratchet.prove.audit import LabelAudit
from ratchet.prove.frozen import FrozenProof
from ratchet.prove.guardrails import Guardrail
from ratchet.prove.missing import AGAINST_BETTER, AGAINST_WORSE, SKIP_LIMIT
from ratchet.prove.plan import ExperimentPlan, PairedScore
from ratchet.prove.tasks_needed import tasks_needed
from ratchet.stats.eprocess import EProcess
from ratchet.stats.gain import USUAL_GAIN
from ratchet.types import InputError, Verdict


class EValues(NamedTuple):
    """The e-values after one pair."""

    superiority: float
    """Against "the mean gain is zero or less"; with a margin, "-margin or less"."""
    harm: float
    """Against "the mean gain is zero or more"; with a margin, "-margin or more"."""
    futility: float
    """Against "the mean gain is `min_gain` or more"; with a margin, "-margin or more"."""
    guardrails: tuple[float, ...]
    """Against "worse than the margin", in plan order."""
    labels: float = 1.0
    """As `superiority`, for the gain in people's labels."""


class GuardrailState:
    """One guardrail's evidence and means so far."""

    __slots__ = (
        "baseline", "candidate", "guardrail", "missing", "pairs", "process", "skips", "worsenings"
    )  # fmt: skip

    def __init__(self, guardrail: Guardrail, plan: ExperimentPlan) -> None:
        self.guardrail = guardrail
        self.process = EProcess(
            null=-guardrail.bound, threshold=1.0 / plan.alpha, horizon=plan.horizon(0)
        )
        self.skips = plan.missing == "skip"
        self.pairs = 0
        self.missing = 0
        self.worsenings: list[float] = []
        self.baseline = 0.0
        self.candidate = 0.0

    def observe(self, sides: tuple[float | None, float | None] | None) -> None:
        before, after = sides if sides is not None else (None, None)
        if before is None or after is None:
            self.missing += 1
            if self.skips:
                self.process.skip()
            else:
                self._count(1.0)
            return
        self._count(self.guardrail.worsening(before, after))
        self.pairs += 1
        self.baseline += before
        self.candidate += after

    @property
    def measured(self) -> bool:
        """Whether the metric is known in any pair; by the rule `skip`, in enough of them."""
        return self.pairs > 0 and not (self.skips and _too_many(self.missing, self.pairs))

    @property
    def passed(self) -> bool:
        return self.process.reached and self.measured

    def more_pairs(self, alpha: float) -> int | None:
        """About how many more pairs a proof takes; None if the data so far break the margin."""
        if self.passed:
            return 0
        mean, variance = _mean_and_variance(self.worsenings)
        room = self.guardrail.bound - mean
        return _more_pairs(self.process, alpha, room, variance) if room > 0.0 else None

    def _count(self, worsening: float) -> None:
        self.worsenings.append(worsening)
        self.process.observe(-worsening)


class Comparison:
    """Decides between a baseline and a candidate as pairs arrive.

    - **promote** as soon as "no better" is rejected at `alpha` and every guardrail passed; with
      frozen sets in the plan, once they passed, too;
    - **harm** as soon as "no worse" is rejected at `harm_alpha`;
    - **futile** as soon as "the gain is at least `min_gain`" is rejected at `futility_alpha`;
    - when the pairs run out: **guardrail** if "no better" was rejected and a guardrail had not
      passed; **not_proved** if the gain seen is worth having and the pairs were too few to prove
      the usual gain of 0.1; else **no_gain**.

    With a margin in the plan, the candidate has to be "not worse": all of these claims are about
    the gain plus the margin.

    A missing score counts as the worst against the claim under test; see `ratchet.prove.missing`.

    Frozen sets are run once the pairs promote, as `proved` says: then draws are observed in place
    of pairs. If one does not pass, it is **guardrail**.

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
        horizon = plan.horizon(0)
        self.plan = plan
        self.verdict: Verdict | None = None
        """The final verdict; None while the comparison runs."""
        self.scored = 0
        """Pairs with both scores."""
        self.missing = 0
        """Pairs without both scores."""
        self.superiority = EProcess(
            null=0.0 - plan.margin, threshold=1.0 / plan.alpha, horizon=horizon
        )
        self.harm = EProcess(null=plan.margin, threshold=1.0 / plan.harm_alpha, horizon=horizon)
        self.futility = EProcess(
            null=plan.margin - plan.min_gain, threshold=1.0 / plan.futility_alpha, horizon=horizon
        )
        self.guardrails = tuple(GuardrailState(g, plan) for g in plan.guardrails)
        self.audit = LabelAudit(plan) if plan.labels else None
        """Evidence from people's labels; None if the scores need none."""
        self.frozen = FrozenProof(plan.frozen, plan.metric, plan.alpha) if plan.frozen else None
        """Evidence from the frozen sets; None without any."""
        self.proved = False
        """Whether the pairs promote: no more pairs are observed, only draws of frozen sets."""
        self._skips = plan.missing == "skip"
        self._sums_against_better = self._sums_against_worse = (0.0, 0.0)
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
        """Mean score of the baseline and of the candidate; 0 without any.

        A missing score counts as in the test that led to the verdict: against harm and futility if
        one of them was proved, else against the candidate. By the rule `skip` it does not count.
        """
        count = self.scored if self._skips else len(self._pairs)
        if count == 0:
            return 0.0, 0.0
        worse = self.verdict in ("harm", "futile")
        baseline, candidate = self._sums_against_worse if worse else self._sums_against_better
        return baseline / count, candidate / count

    @property
    def too_many_missing(self) -> bool:
        """Whether, by the rule `skip`, too many scores are missing to promote anything."""
        return self._skips and _too_many(self.missing, self.scored)

    @property
    def more_pairs(self) -> int:
        """About how many more pairs a proof takes if the data so far are representative."""
        gain, variance = self._room_and_variance()
        counts = [state.more_pairs(self.plan.alpha) or 0 for state in self.guardrails]
        counts.append(self.plan.min_pairs - self.scored)
        if gain > 0.0 and not self.superiority.reached:
            counts.append(_more_pairs(self.superiority, self.plan.alpha, gain, variance))
        return max(0, *counts)

    def observe(self, pair: PairedScore) -> Verdict | None:
        """Add the next pair; returns the verdict, or None to continue.

        Raises:
            InputError: The comparison is over, the pair's number of repetitions is not the plan's,
                or it has a value that a guardrail cannot use.
        """
        if self.verdict is not None or self.proved:
            raise InputError(
                f"Task {pair.task_id!r} came after the verdict {self.verdict or 'promote'!r}.",
                hint="A pair that was not part of the decision cannot be added to it.",
            )
        runs = max(1, len(pair.repetitions))
        if runs != self.plan.repetitions:
            raise InputError(
                f"Task {pair.task_id!r} has {runs} repetitions; the plan says "
                f"{self.plan.repetitions}.",
                hint="Every task of a comparison is run equally often.",
            )
        horizon = self.plan.horizon(len(self._pairs))
        for process in (self.superiority, self.harm, self.futility):
            process.horizon = horizon
        for state in self.guardrails:
            state.process.horizon = horizon
        missing = pair.missing
        self.missing += missing
        self.scored += not missing
        if missing and self._skips:
            self._skip()
        else:
            before, after = pair.filled(*AGAINST_BETTER)
            self.superiority.observe(after - before)
            self._sums_against_better = _plus(self._sums_against_better, before, after)
            before, after = pair.filled(*AGAINST_WORSE)
            self.harm.observe(before - after)
            self.futility.observe(before - after)
            self._sums_against_worse = _plus(self._sums_against_worse, before, after)
            for state in self.guardrails:
                state.observe(pair.metrics.get(state.guardrail.metric))
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
        verdict = self._stop()
        if verdict is None and len(self._pairs) >= self.plan.max_pairs:
            verdict = self._exhausted()
        self._conclude(verdict)
        return self.verdict

    def observe_draw(self, set_id: str, pair: PairedScore) -> Verdict | None:
        """Add the result of a frozen set's next draw; returns the verdict, or None to continue.

        Args:
            set_id: The set.
            pair: The scores of the drawn task.

        Raises:
            InputError: The pairs have not promoted the candidate, or the comparison is over; or the
                set's seed has drawn another task.
        """
        if self.frozen is None or not self.proved or self.verdict is not None:
            raise InputError(
                f"A draw of frozen set {set_id} came "
                f"{'after the verdict' if self.verdict else 'before the pairs were decided'}.",
                hint="Frozen sets are run once the pairs promote the candidate.",
            )
        self.frozen.observe(set_id, pair)
        if self.frozen.passed:
            self.verdict = "promote"
        elif self.frozen.lost:
            self.verdict = "guardrail"
        return self.verdict

    def finish(self) -> Verdict:
        """End the comparison without further pairs or draws; returns the final verdict."""
        if self.verdict is None and not self.proved:
            self._conclude(self._exhausted())
        if self.verdict is None:  # a frozen set has not passed
            self.verdict = "guardrail"
        return self.verdict

    def _conclude(self, verdict: Verdict | None) -> None:
        if verdict == "promote" and self.frozen is not None:
            self.proved = True
        else:
            self.verdict = verdict

    def _skip(self) -> None:
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
        if self.audit is not None and self._better and self.scored >= self.plan.min_pairs:
            return "promote" if self.audit.confirmed else "unconfirmed"
        if self._too_few:
            return "not_proved"
        if self.superiority.reached and not all(state.passed for state in self.guardrails):
            return "guardrail"
        return "no_gain"

    @property
    def _too_few(self) -> bool:
        """Whether a relevant gain was seen, in fewer pairs than the planned gain takes to prove.

        With a margin, it is the distance to it that has to be proved. One that is smaller than its
        own standard error was not seen, and one whose price breaks a guardrail's margin is not
        worth having.
        """
        if self._skips or not self._pairs:
            return False
        if any(state.more_pairs(self.plan.alpha) is None for state in self.guardrails):
            return False
        count = len(self._pairs)
        gain, variance = self._room_and_variance()
        if gain <= 0.0 or gain < self.plan.min_gain or gain * gain * count < variance:
            return False
        worth = self.plan.margin or max(USUAL_GAIN, self.plan.min_gain)
        return count < tasks_needed(self.plan.alpha, worth, variance)

    def _room_and_variance(self) -> tuple[float, float]:
        """Mean of the differences plus the margin, and their variance, as "better" counts them."""
        gain, variance = _mean_and_variance(
            [gain for gain in lowest_gains(self) if gain is not None]
        )
        return gain + self.plan.margin, variance


def _mean_and_variance(values: Sequence[float]) -> tuple[float, float]:
    """Mean and variance of a sample; 0 without any."""
    if not values:
        return 0.0, 0.0
    mean = math.fsum(values) / len(values)
    return mean, math.fsum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)


def _more_pairs(process: EProcess, alpha: float, distance: float, variance: float) -> int:
    """Pairs that a proof still takes, for a mean this far from what it must exclude."""
    return tasks_needed(min(alpha * process.value, 0.5), min(distance, 1.0), variance)


def _plus(sums: tuple[float, float], before: float, after: float) -> tuple[float, float]:
    return sums[0] + before, sums[1] + after


def _too_many(missing: int, scored: int) -> bool:
    return missing > SKIP_LIMIT * (missing + scored)


def lowest_gains(comparison: Comparison) -> list[float | None]:
    """Candidate minus baseline by pair, as "better" counts them; None for a skipped pair."""
    return _gains(comparison, AGAINST_BETTER)


def highest_gains(comparison: Comparison) -> list[float | None]:
    """Candidate minus baseline by pair, as "worse" counts them; None for a skipped pair."""
    return _gains(comparison, AGAINST_WORSE)


def _gains(comparison: Comparison, fill: tuple[float, float]) -> list[float | None]:
    gains: list[float | None] = []
    for pair in comparison.pairs:
        before, after = pair.filled(*fill)
        skipped = pair.missing and comparison.plan.missing == "skip"
        gains.append(None if skipped else after - before)
    return gains


def replay(
    plan: ExperimentPlan,
    pairs: Iterable[PairedScore],
    draws: Iterable[tuple[str, PairedScore]] = (),
) -> Comparison:
    """Replay pairs, then draws of frozen sets; everything after the verdict is ignored.

    Raises:
        InputError: A set's seed has drawn another task.
    """
    comparison = Comparison(plan)
    for pair in pairs:
        if comparison.observe(pair) is not None or comparison.proved:
            break
    for set_id, pair in draws if comparison.proved else ():
        if comparison.observe_draw(set_id, pair) is not None:
            break
    comparison.finish()
    return comparison


def fewest_pairs_to_promote(plan: ExperimentPlan) -> int | None:
    """Pairs needed to promote a perfect candidate over a baseline that always scores 0.

    Assumes equal guardrail metrics.

    Returns:
        The number of pairs; None if not even that candidate is promoted within `plan.max_pairs`.
    """
    comparison = Comparison(
        msgspec.structs.replace(plan, repetitions=1, labels=0, stages=(), frozen=None)
    )
    metrics = {guardrail.metric: (1.0, 1.0) for guardrail in plan.guardrails}
    for number in range(plan.max_pairs):
        verdict = comparison.observe(PairedScore(str(number), 0.0, 1.0, dict(metrics)))
        if verdict is not None:
            return comparison.scored if verdict == "promote" else None
    return None
