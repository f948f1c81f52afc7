"""The sentences of a stage's decision: what was found, and why it did not end otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ratchet.prove.feedback import FeedbackRule
from ratchet.prove.missing import MissingRule
from ratchet.types import StageDecision
from ratchet.types.interval_text import interval_text
from ratchet.types.wording import counted

PLACES = {"shadow": "In shadow", "canary": "In the canary"}


def stage_sentence(
    decision: StageDecision, *, limit: float, reasons: Sequence[str], left_out: Sequence[str]
) -> StageDecision:
    """The decision of a shadow or canary stage with its sentences.

    Args:
        decision: All but the sentence.
        limit: The largest mean difference that `pass` has to exclude.
        reasons: Why it was stopped, or what keeps it from passing apart from its e-value; clauses.
        left_out: What became of pairs or units that have no score; sentences.
    """
    place, moved = PLACES[decision.stage], _moved(decision)
    evidence = f"e-value {decision.e_value:.3g}, {decision.needed:.3g} needed"
    proved = decision.e_value >= decision.needed
    if limit < 0.0:
        claim = f"less than {-limit:g} worse"
    else:
        claim = f"better by more than {limit:g}" if limit else "better"
    if decision.verdict == "pass":
        text = f"{place} the candidate is proved to be {claim}: {moved}; {evidence}."
    elif decision.verdict == "harm":
        text = f"{place} the candidate was stopped for harm: {moved}."
    elif decision.verdict == "hold":
        text = f"{place} nothing is decided, as the traffic cannot be trusted: {moved}."
    elif proved:
        text = f"{place} the candidate is proved to be {claim}, but does not pass: {moved}."
    else:
        text = f"{place} the candidate is not proved to be {claim}: {moved}; {evidence}."
    if reasons and decision.verdict != "pass":
        text += f" {_capitalised('; '.join(reasons))}."
    if decision.verdict == "inconclusive":
        text += " An inconclusive stage ships nothing."
    text += _guarded(decision) + "".join(f" {sentence}" for sentence in left_out)
    text += _harmed_groups(decision)
    return msgspec.structs.replace(decision, sentence=text)


def _moved(decision: StageDecision) -> str:
    if decision.baseline is None or decision.candidate is None:
        return "there is no score of both sides yet"
    text = (
        f"mean {decision.metric} {decision.baseline:.3f} before, {decision.candidate:.3f} with the"
        f" candidate ({decision.candidate - decision.baseline:+.3f}"
    )
    if decision.interval is not None:
        level = 100.0 * (1.0 - decision.alpha)
        text += f"; {level:.3g} % interval {interval_text(*decision.interval)}"
    if decision.stage == "shadow":
        return text + f") over {counted(decision.baseline_count, 'pair')}"
    return text + f") over {decision.baseline_count} and {decision.candidate_count} units"


def proved_lower(decision: StageDecision) -> str:
    """A clause that the score is proved lower."""
    return (
        f"the {decision.metric} is proved lower, with an e-value of {decision.harm_e_value:.3g}"
        f" where {decision.harm_needed:.3g} is needed"
    )


def _guarded(decision: StageDecision) -> str:
    if decision.verdict == "harm" or not decision.guardrails:
        return ""
    proved = [guardrail.metric for guardrail in decision.guardrails if guardrail.passed]
    open_ones = [
        guardrail.metric
        for guardrail in decision.guardrails
        if guardrail.measured and not guardrail.passed
    ]
    unmeasured = [guardrail.metric for guardrail in decision.guardrails if not guardrail.measured]
    text = ""
    if proved:
        text += f" Guardrails proved to hold: {', '.join(proved)}."
    if open_ones:
        text += f" Not proved within its margin: {', '.join(open_ones)}."
    if unmeasured:
        text += f" Not measured: {', '.join(unmeasured)}."
    return text


def counted_against(decision: StageDecision, total: int, rule: MissingRule) -> list[str]:
    """How many of all pairs or units have no score, and what these count as."""
    if not decision.missing:
        return []
    noun = "pairs" if decision.stage == "shadow" else "units"
    if rule == "skip":
        return [f"{decision.missing} {noun} have no score."]
    verb = "counts" if decision.missing == 1 else "count"
    side = "in favour of" if decision.verdict == "harm" else "against"
    return [f"{decision.missing} of {total} {noun} had no score and {verb} {side} the candidate."]


def blocked_pairs(decision: StageDecision) -> list[str]:
    """In how many pairs the candidate's answer is unknown."""
    if not decision.blocked:
        return []
    return [
        f"In {counted(decision.blocked, 'pair')} the candidate was stopped at a side effect, or"
        " left what was recorded."
    ]


def silent_units(decision: StageDecision, total: int) -> list[str]:
    """How many of all units gave no feedback, and what is assumed about them."""
    if not decision.missing:
        return []
    return [
        f"{decision.missing} of {total} units gave no feedback: it is assumed that people fall"
        " silent alike in both arms."
    ]


def feedback_outlook(rule: FeedbackRule, needed: int | None, gain: float, most: int) -> str:
    """How many units a canary on feedback takes, and how long.

    Args:
        rule: What is known of the time before.
        needed: See `units_needed`.
        gain: The rise of the mean feedback for which that is stated.
        most: Units after which the stage ends.
    """
    if needed is None or rule.coverage is None:
        return "How many units it takes is not known, as no unit before the canary had feedback."
    text = (
        f"With feedback on {100.0 * rule.coverage:.3g} % of units, as before, a canary takes about"
    )
    text += f" {_rounded(needed):,} units"
    if rule.units_per_day:
        text += f", or {needed / rule.units_per_day:.1f} days of all traffic,"
    text += f" if the mean feedback rises by {gain:g}"
    if needed > most:
        text += f"; it ends after {most:,} units, which max_units raises"
    return text + "."


def _rounded(count: int) -> int:
    """Rounded to two significant digits."""
    return int(float(f"{count:.2g}"))


def _harmed_groups(decision: StageDecision) -> str:
    groups = decision.harmed_groups
    if not groups:
        return ""
    return f" Proved worse in these groups, whatever it is overall: {', '.join(groups)}."


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
