"""Explains a run in plain words: where it is, why it ended as it did, and what would change it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ratchet._waiting import LongWait
from ratchet.autopilot.run_outcome import RunOutcome, refusals_in
from ratchet.types import STAGE_TRANSITIONS
from ratchet.types.wording import counted

MAX_REASONS_TOLD = 3
"""Maximum number of reasons for refusals that are listed."""


def explain_run(
    outcome: RunOutcome,
    entries: Sequence[tuple[str, Any]],
    waits: Sequence[LongWait] | None,
    now: float,
) -> list[str]:
    """Sentences about a run without a decision.

    Args:
        outcome: The run.
        entries: Its journal.
        waits: What it waits for; None if no process is at work on it.
        now: Unix seconds.
    """
    run = outcome.run
    if run.stage == "failed":
        return [
            f"The run stopped in its stage {run.failed_at or 'baseline'}: {run.message}",
            f"Nothing was decided. Once that is fixed, {outcome.command} continues there.",
        ]
    if STAGE_TRANSITIONS[run.stage]:
        return [
            f"Nothing is decided yet: the run is in its stage {run.stage}.",
            at_work(waits, now, outcome.command),
        ]
    sentences = [run.message] if run.message else []
    sentences += _tried(outcome)
    sentences += _refused(entries)
    return [*sentences, *_would_change(outcome)]


def at_work(waits: Sequence[LongWait] | None, now: float, command: str) -> str:
    """Sentence on whether a process is at work on a run, and what it waits for."""
    if waits is None:
        return f"No process is at work on it; {command} continues it."
    if not waits:
        return "A process is at work on it."
    return f"A process is at work on it, {'; '.join(wait.sentence(now) for wait in waits)}."


def _tried(outcome: RunOutcome) -> list[str]:
    judged = [
        proposal
        for proposal in outcome.proposals
        if proposal.candidate_id != outcome.run.baseline_id
    ]
    finding = outcome.finding or {}
    if not judged:
        return ["No candidate was judged, so nothing could be better than the agent as it is."]
    best = max(judged, key=lambda proposal: proposal.value)
    sentence = (
        f"Judged on train tasks: {counted(len(judged), 'candidate')}; the best scored"
        f" {best.value:.3f} there, over {counted(best.tasks, 'task')}."
    )
    if finding.get("baseline_val") is not None:
        sentence += (
            " A candidate goes on to the proof only if it may be better than the baseline over all"
            " train and val tasks that both have run; none of these may be."
        )
    return [sentence]


def _refused(entries: Sequence[tuple[str, Any]]) -> list[str]:
    refusals = Counter(refusal.why for refusal in refusals_in(entries))
    if not refusals:
        return []
    most = "; ".join(
        f"{counted(count, 'time')}: {why}" for why, count in refusals.most_common(MAX_REASONS_TOLD)
    )
    return [f"Refused without being judged: {counted(refusals.total(), 'proposal')}. {most}"]


def _would_change(outcome: RunOutcome) -> list[str]:
    ways = []
    if outcome.coach_gone:
        ways.append(f"a coach that answers ({outcome.coach_gone['message'].rstrip('.')})")
    elif not outcome.costs.coach_calls:
        ways.append("a coach under [coach], which can rewrite prompts and code")
    sentence = (outcome.finding or {}).get("sentence", "")
    if "budget is spent" in sentence:
        ways.append("a larger [improve.budget], since learning ended when it was spent")
    ways += ["another search (ratchet improve --seed 1)", "tasks on which the agent still fails"]
    return [f"What could change it: {'; '.join(ways)}."]
