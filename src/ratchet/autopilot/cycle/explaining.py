"""Explains decisions and cycles in plain words: why, and what would change it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from math import ceil, log

from ratchet.autopilot.cycle.status import NEXT_BY_STATE
from ratchet.types import (
    CYCLE_LIMITS,
    FINAL_CYCLE_STATES,
    Cycle,
    CycleTransition,
    Decision,
    Experiment,
    GuardrailResult,
    StageDecision,
)
from ratchet.types.interval_text import interval_text
from ratchet.types.wording import counted


def explain_experiment(experiment: Experiment) -> list[str]:
    """Sentences about a held-out experiment."""
    sentences = [
        f"Candidate {experiment.candidate_id[:12]} was compared with the baseline"
        f" {experiment.baseline_id[:12]} on tasks that learning never saw."
    ]
    decided = experiment.decision
    if decided is None:
        return [
            *sentences,
            "There is no decision yet: the experiment is running, or waiting for labels.",
        ]
    needed = 1.0 / decided.alpha
    sentences += [
        decided.sentence,
        f"The evidence {'that it is no worse' if decided.margin else 'for a gain'} reached"
        f" {decided.e_value:.3g}, and {needed:.3g} is needed: this is experiment"
        f" {len(experiment.history) + 1} of its stream, and all of them share one budget of false"
        " promotions.",
        f"The mean {decided.metric} went from {decided.baseline:.3f} to {decided.candidate:.3f}"
        f" over {counted(decided.pairs, 'task')}; its interval is"
        f" {interval_text(*decided.interval)}.",
        *(_guardrail(guardrail) for guardrail in decided.guardrails),
    ]
    if decided.labelled is not None:
        of = decided.labelled
        confirmed = "confirm" if of.confirmed else "do not confirm"
        sentences.append(
            f"The score is a judge's. People labelled {of.labelled} of"
            f" {counted(of.wanted, 'drawn pair')}, and their labels {confirmed} the gain."
        )
    return [*sentences, *_would_change(decided, needed)]


def explain_stage(decision: StageDecision) -> list[str]:
    """Sentences about a stage on live traffic."""
    sentences = [f"{decision.stage.capitalize()}: {decision.sentence}"]
    if decision.verdict is None:
        sentences.append(
            f"It is undecided: the evidence is at {decision.e_value:.3g}, and {decision.needed:.3g}"
            " is needed."
        )
    sentences += [_guardrail(guardrail) for guardrail in decision.guardrails]
    if decision.harmed_groups:
        sentences.append(
            f"It is proved worse in these groups, whatever the overall result:"
            f" {', '.join(decision.harmed_groups)}."
        )
    changes = {
        "inconclusive": "More live traffic would have decided. A candidate that is not proved is "
        "not shipped.",
        "harm": "This candidate is not tried again; only another could ship.",
        "hold": "The arms cannot be compared, so nothing can be concluded. Look for calls that "
        "are lost, or that are counted, scored or rated in only one arm; then end this cycle, so "
        "that a new one can begin.",
        "drift": "Rolling back would not help, because the earlier release got worse, too. Look "
        "for a change in the traffic or at a provider.",
        "alarm": "The release is rolled back. [watch] sets how much worse it may get and, for the "
        "comparison with an old model, [shadow] how certain that has to be.",
    }
    if decision.verdict in changes:
        sentences.append(changes[decision.verdict])
    return sentences


def explain_cycle(cycle: Cycle, moves: Sequence[CycleTransition], now: float) -> list[str]:
    """Sentences about a cycle: what began it, each move with its rule, and what comes next."""
    sentences = [f"It began for this reason: {cycle.trigger}"]
    for move in moves:
        by = "" if move.actor == "autopilot" else f", by {move.actor}"
        states = f"{_words(move.source)} → {_words(move.target)}"
        sentences.append(f"{_time(move.at)} {states}{by}: {move.rule}")
    for decision in cycle.decisions:
        sentences += explain_stage(decision)
    if cycle.state in FINAL_CYCLE_STATES:
        return [*sentences, f"It has ended. {cycle.message}".strip()]
    if cycle.waits:
        until = "" if cycle.waits_until is None else f" (until {_time(cycle.waits_until)})"
        sentences.append(f"It waits: {cycle.waits}{until}")
    sentences.append(f"Next: {NEXT_BY_STATE[cycle.state]}.")
    if cycle.state in CYCLE_LIMITS:
        seconds, target = CYCLE_LIMITS[cycle.state]
        left_h = max(0.0, cycle.entered_at + seconds - now) / 3600
        left = f"{left_h / 24:.1f} days" if left_h >= 48 else f"{left_h:.1f} h"
        sentences.append(
            f"If nothing else happens, its next state, in {left}, is {_words(target)}."
        )
    return sentences


def _would_change(decided: Decision, needed: float) -> list[str]:
    failed = [guardrail.metric for guardrail in decided.guardrails if not guardrail.passed]
    if decided.verdict == "promote":
        return ["It may be shipped. If a watch then raises an alarm, it is rolled back."]
    if decided.verdict == "no_gain":
        if decided.e_value <= 1.0:
            what = "it being no worse" if decided.margin else "a gain"
            return [
                f"So far there is no evidence for {what}, so more tasks alone would not "
                "change the decision."
            ]
        about = ceil(decided.pairs * log(needed) / log(decided.e_value))
        return [
            f"More test tasks could change the decision: about {about} at the current rate, which "
            "may not last."
        ]
    if decided.verdict == "not_proved":
        then = (
            " Add them and run the same command: it continues the same comparison, at the same "
            "level, without rerunning what was compared."
            if decided.labelled is None
            else " Add them and run the same command: it starts a new comparison, with pairs to "
            "label drawn from all tasks."
        )
        return [
            f"About {counted(decided.more_pairs, 'more test task')} would prove it, if the true "
            f"gain is the one seen so far, which is not certain.{then}"
        ]
    if decided.verdict == "guardrail":
        which = " and ".join(failed) or "every guardrail"
        better = "no worse" if decided.margin else "better"
        return [
            f"It is {better}, and would be shipped if {which} were"
            " proved to hold: by more tasks, a candidate that does better on it, or a wider "
            "margin under [[guardrails]], if that is acceptable."
        ]
    if decided.verdict == "unconfirmed":
        return ["People's labels could change it: ratchet label."]
    if decided.verdict == "futile" and decided.margin:
        return [
            f"It is proved to score lower by more than {decided.margin:g}. Only another candidate,"
            " or a wider margin in a new run (--margin), would change it."
        ]
    if decided.verdict == "futile":
        return [
            "The gain, if any, is proved to be smaller than min_gain under [prove]. Only another"
            " candidate, or a smaller min_gain, would change it."
        ]
    return ["It is proved worse. Only another candidate could ship."]


def _guardrail(guardrail: GuardrailResult) -> str:
    if not guardrail.measured:
        return f"The guardrail {guardrail.metric} could not be measured."
    unit = f" {guardrail.unit}" if guardrail.unit else ""
    holds = "holds" if guardrail.passed else "is not proved to hold"
    return (
        f"The guardrail {guardrail.metric} {holds}: {guardrail.baseline:.4g}{unit} before,"
        f" {guardrail.candidate:.4g}{unit} after."
    )


def _words(state: str) -> str:
    return state.replace("_", " ")


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
