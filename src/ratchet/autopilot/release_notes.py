"""Sentences on how a candidate was found: the cost of learning, and the steps from the source."""

from __future__ import annotations

from typing import Any

import msgspec

from ratchet.autopilot.run_outcome import CHOSEN
from ratchet.autopilot.translation_note import translation_note
from ratchet.prove import RepetitionPlan
from ratchet.store import Store
from ratchet.types import Candidate, Cost, Run
from ratchet.types.wording import counted

MAX_STEPS = 12
"""Maximum number of steps listed, newest first."""


def release_notes(store: Store, run: Run) -> tuple[str, ...]:
    """Sentences for the reviewer of the change.

    Args:
        store: Store of the run's finding and candidates.
        run: A run that has selected a candidate.
    """
    finding: Any = store.journal.get(run.id, "finding") or {}
    if store.journal.get(run.id, CHOSEN):
        sentences = ["A person chose it from the candidates of earlier runs."]
    else:
        sentences = [_cost(finding)] if "rollouts" in finding else []
    repeated = msgspec.convert(store.journal.get(run.id, "repetitions") or {}, RepetitionPlan)
    if repeated.sentence:
        sentences.append(repeated.sentence)
    trust: Any = store.journal.get(run.id, "trust")
    if trust:
        sentences.append(trust["sentence"])
    if store.journal.get(run.id, f"test/{run.best_id}") == "":
        sentences.append("In learning, it passed all of the repository's tests that touch it.")
    if translated := translation_note(store, run):
        sentences.append(translated)
    steps = _steps(store, run)
    if len(steps) > 1:
        sentences.append(
            f"It was made in {counted(len(steps), 'step')} from the source, newest first:"
        )
    else:
        return tuple(sentences)  # a single step's reason is printed with the change
    sentences += [f"{step.id[:8]} by {step.algorithm}: {step.reason}" for step in steps[:MAX_STEPS]]
    if len(steps) > MAX_STEPS:
        sentences.append(f"and {len(steps) - MAX_STEPS} before it; see: ratchet candidates")
    return tuple(sentences)


def _cost(finding: dict[str, Any]) -> str:
    parts = [counted(finding["rollouts"], "rollout")]
    if finding["coach_calls"]:
        parts.append(counted(finding["coach_calls"], "coach call"))
    cost = Cost(known_usd=finding["dollars"], unpriced=finding.get("unpriced", {}))
    if cost != Cost():
        parts.append(str(cost))
    tasks = (
        f" on {counted(finding['val_tasks'], 'val task')}" if finding["val_tasks"] else " on val"
    )
    return (
        f"Learning tried {counted(finding['proposals'], 'candidate')} for {', '.join(parts)}; the"
        f" mean{tasks} went from {finding['baseline_val']:.3f} to {finding['best_val']:.3f}."
    )


def _steps(store: Store, run: Run) -> list[Candidate]:
    """The selected candidate, its first parent, and so on back to the source."""
    steps: list[Candidate] = []
    visited = {run.baseline_id}
    next_id = run.best_id
    while next_id not in visited:
        visited.add(next_id)
        steps.append(store.candidates.get(next_id))
        next_id = steps[-1].parents[0] if steps[-1].parents else run.baseline_id
    return steps
