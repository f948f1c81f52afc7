"""The decision of a finished comparison, with a human-readable sentence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from ratchet.prove.comparison import Comparison, GuardrailState, highest_gains, lowest_gains
from ratchet.prove.interval import interval
from ratchet.types import Decision, FrozenResult, GuardrailResult, InputError
from ratchet.types.interval_text import interval_text
from ratchet.types.wording import counted

SIDES = ("baseline", "candidate")


def decision(comparison: Comparison) -> Decision:
    """How the comparison ended.

    Raises:
        InputError: It has not ended; call `finish()` first.
    """
    verdict = comparison.verdict
    if verdict is None:
        raise InputError(
            f"The comparison is not over after {counted(len(comparison.path), 'pair')}.",
            hint="Feed it more pairs, or end it with finish().",
        )
    plan = comparison.plan
    baseline, candidate = comparison.means
    bounds = interval(
        lowest_gains(comparison),
        alpha=plan.alpha,
        min_gain=plan.min_gain - plan.margin,
        horizon=plan.horizon,
        boundary=0.0 - plan.margin,
        highest=highest_gains(comparison),
    )
    return Decision(
        verdict=verdict,
        metric=plan.metric,
        alpha=plan.alpha,
        pairs=comparison.scored if plan.missing == "skip" else len(comparison.path),
        missing=comparison.missing,
        more_pairs=comparison.more_pairs if verdict == "not_proved" else 0,
        baseline=baseline,
        candidate=candidate,
        margin=plan.margin,
        e_value=comparison.superiority.peak,
        interval=bounds,
        guardrails=tuple(_result(state) for state in comparison.guardrails),
        sentence=_sentence(comparison, bounds),
        repetitions=plan.repetitions,
        labelled=comparison.audit.result(comparison.pairs) if comparison.audit else None,
        frozen=_frozen(comparison),
    )


def _frozen(comparison: Comparison) -> tuple[FrozenResult, ...]:
    """The results of the frozen sets, if they were reached."""
    sets = comparison.frozen
    return sets.results() if sets is not None and comparison.proved else ()


def _result(state: GuardrailState) -> GuardrailResult:
    return GuardrailResult(
        metric=state.guardrail.metric,
        margin=state.guardrail.margin,
        unit=state.guardrail.unit,
        relative=state.guardrail.aggregate == "relative",
        baseline=state.baseline / state.pairs if state.measured else None,
        candidate=state.candidate / state.pairs if state.measured else None,
        e_value=state.process.peak,
        passed=state.passed,
    )


def _sentence(comparison: Comparison, bounds: tuple[float, float]) -> str:
    plan = comparison.plan
    baseline, candidate = comparison.means
    needed = 1.0 / plan.alpha
    level = 100.0 * (1.0 - plan.alpha)
    evidence = f"e-value {comparison.superiority.peak:.3g}, {needed:.3g} needed"
    move = (
        f"mean {plan.metric} {baseline:.3f} before, {candidate:.3f} after"
        f" ({candidate - baseline:+.3f};"
        f" {level:.3g} % interval {interval_text(*bounds)})"
        f" over {comparison.scored if plan.missing == 'skip' else len(comparison.path)} pairs"
    )
    if plan.repetitions > 1:
        move += f" of means of {plan.repetitions} runs"
    failed = [s.guardrail.metric for s in comparison.guardrails if s.measured and not s.passed]
    unmeasured = [s.guardrail.metric for s in comparison.guardrails if not s.measured]
    passed = [s.guardrail.metric for s in comparison.guardrails if s.passed]
    proved = f"no worse, within a margin of {plan.margin:g}" if plan.margin else "better"
    if comparison.verdict == "promote":
        text = f"Proved {proved}: {move}; {evidence}."
        if passed:
            text += f" Guardrails proved to hold: {', '.join(passed)}."
        text += _frozen_words(comparison) + _labelled(comparison)
    elif comparison.verdict == "unconfirmed":
        text = (
            f"{_capital(proved)} by the judge's scores alone: {move};"
            f" {evidence}.{_labelled(comparison)}"
        )
    elif comparison.verdict == "harm":
        by = f" by {plan.margin:g} or more" if plan.margin else ""
        text = f"Proved worse{by}: {move}; stopped for harm."
    elif comparison.verdict == "futile" and plan.margin:
        text = f"It scores lower by more than the {plan.margin:g} that is allowed: {move}."
    elif comparison.verdict == "futile":
        text = (
            f"There is no significant gain: {move}; the gain is proved to be below"
            f" {plan.min_gain:g}, the smallest worth having."
        )
    elif comparison.verdict == "guardrail":
        text = f"{_capital(proved)}, but not proved safe: {move}; {evidence}."
        if failed:
            text += f" Not proved within its margin: {', '.join(failed)}."
        if unmeasured:
            text += f" Not measured: {', '.join(unmeasured)}."
        text += _frozen_words(comparison)
    elif comparison.verdict == "not_proved":
        text = (
            f"Not proved: it looks {'no worse' if plan.margin else 'better'}, but there are too few"
            " pairs to prove it."
        )
        if comparison.superiority.reached and failed:
            text = (
                f"Not proved: it is {proved}, but there are too few pairs to prove that these stay"
                f" within their margins: {', '.join(failed)}."
            )
        text += f" About {comparison.more_pairs} more would do: {move}; {evidence}."
    else:
        nothing = "Not proved to be no worse" if plan.margin else "There is no significant gain"
        if comparison.superiority.reached and comparison.scored < plan.min_pairs:
            text = (
                f"{nothing} on so few pairs: {move}; {evidence}, and at least"
                f" {counted(plan.min_pairs, 'scored pair')}."
            )
        else:
            text = f"{nothing}: {move}; {evidence}."
    return text + _missing(comparison) + _broke(comparison)


def _frozen_words(comparison: Comparison) -> str:
    """Which frozen sets passed, and which did not; empty if none was run."""
    results = _frozen(comparison)
    held = [repr(result.title) for result in results if result.passed]
    text = f" Proved to stay fixed: {', '.join(held)}." if held else ""
    for result in results:
        if result.passed:
            continue
        text += f" Not proved to stay fixed: {result.title!r}"
        if result.baseline is not None and result.candidate is not None:
            text += f", mean {result.baseline:.3f} before, {result.candidate:.3f} after"
        text += f" in {counted(result.draws, 'draw')} of its {counted(result.tasks, 'task')}"
        text += f" (a loss of {result.margin:g} had to be ruled out)."
    silent = [repr(r.title) for r in results if r.passed and r.baseline == 0.0]
    if silent:
        text += (
            f" The baseline is right in no draw of {', '.join(silent)}, so there was nothing to"
            " lose."
        )
    return text


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _labelled(comparison: Comparison) -> str:
    """The result of people's labels; empty if the metric is not a judge's."""
    audit = comparison.audit
    if audit is None:
        return ""
    audited = audit.result(comparison.pairs)
    verb = "prove" if audited.confirmed else "do not prove"
    text = (
        f" People's labels of {counted(audited.labelled, 'random pair')} {verb} it: e-value"
        f" {audited.e_value:.3g}, {1.0 / comparison.plan.alpha:.3g} needed"
    )
    if audited.gain is not None and audited.interval is not None:
        low, high = audited.interval
        text += f"; gain {audited.gain:+.3f} (95 % interval {interval_text(low, high)})"
    if audited.missing:
        noun = "pair was" if audited.missing == 1 else "pairs were"
        text += f"; {audited.missing} drawn {noun} not labelled and count against the candidate"
    return text + "."


def _broke(comparison: Comparison) -> str:
    """On how many answers the evaluator failed, each of which counts as 0."""
    text = ""
    for name in SIDES:
        reasons = [
            run.reasons[name]
            for pair in comparison.pairs
            for run in pair.runs
            if name in run.reasons and getattr(run, name) is not None
        ]
        if reasons:
            noun, verb = ("answer", "counts") if len(reasons) == 1 else ("answers", "count")
            text += (
                f" {len(reasons)} {noun} of the {name} broke the evaluator{_usual(reasons)} and"
                f" {verb} as 0."
            )
    return text


def _usual(reasons: Iterable[str]) -> str:
    """The most frequent reason, in brackets; empty if none is known."""
    counts = Counter(reason.rstrip(".") for reason in reasons if reason)
    if not counts:
        return ""
    reason, _ = min(counts.items(), key=lambda item: (-item[1], item[0]))
    return f" ({'mostly: ' if len(counts) > 1 else ''}{reason})"


def _missing(comparison: Comparison) -> str:
    """What was missing, and how it was counted."""
    pairs, skipped = len(comparison.path), comparison.plan.missing == "skip"
    text = ""
    if comparison.missing:
        side = "for" if comparison.verdict in ("harm", "futile") else "against"
        verb = "counts" if comparison.missing == 1 else "count"
        treated = "were skipped" if skipped else f"{verb} {side} the candidate"
        why = _usual(
            run.reasons.get(name, "")
            for pair in comparison.pairs
            for run in pair.runs
            for name in SIDES
            if getattr(run, name) is None
        )
        text = f" {comparison.missing} of {counted(pairs, 'pair')} had no score{why} and {treated}"
        scored = [pair for pair in comparison.pairs if not pair.missing]
        if scored and not skipped:
            before = math.fsum(pair.baseline or 0.0 for pair in scored) / len(scored)
            after = math.fsum(pair.candidate or 0.0 for pair in scored) / len(scored)
            text += f"; in the other {len(scored)} the means are {before:.3f} and {after:.3f}"
        text += "."
    if comparison.too_many_missing:
        text += " Nothing is promoted with so many missing."
    for state in comparison.guardrails:
        if state.missing and state.pairs:
            treated = "skipped" if skipped else "counted as the largest worsening"
            text += (
                f" {state.guardrail.metric} was not measured in {state.missing} of"
                f" {counted(pairs, 'pair')}, which were {treated}."
            )
    return text
