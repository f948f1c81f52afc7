"""A run and its results: candidates, refusals, costs and the decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ratchet.autopilot.call_costs import call_costs
from ratchet.learn import Proposal
from ratchet.store import Store
from ratchet.types import Cost, Decision, Release, Run, total_cost

VERDICT_PREFIXES = ("check/", "test/")

COACH_GONE = "coach-gone"
"""Journal key of why learning lost its coach."""

PAIRS_TO_LABEL = "pairs-to-label"
"""Journal key of the rollouts that people label for the experiment, pair by pair."""

CHOSEN = "chosen"
"""Journal key of the candidate that a person chose to prove, and its margin."""

UNUSABLE_PREFIX = "unusable/"
"""Key prefix of unusable answers in the journal."""


class RunCosts(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has spent so far, in all stages."""

    rollouts: int = 0
    coach_calls: int = 0
    judge_calls: int = 0
    of_coach: Cost = Cost()
    of_judges: Cost = Cost()
    cost: Cost = Cost()
    """Dollars of rollouts, coach calls and judges' calls."""

    def for_machines(self) -> dict[str, Any]:
        """The costs as JSON; dollars are null when a call's price is unknown."""
        return {
            "rollouts": self.rollouts,
            "coach_calls": self.coach_calls,
            "coach_dollars": self.of_coach.usd,
            "judge_calls": self.judge_calls,
            "judge_dollars": self.of_judges.usd,
            "dollars": self.cost.usd,
            "known_dollars": self.cost.known_usd,
            "unpriced": self.cost.unpriced,
        }


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A run with its experiment, evidence and release."""

    run: Run
    decision: Decision | None
    evidence: str
    release: Release | None
    finding: dict[str, Any] | None
    proposals: tuple[Proposal, ...]
    costs: RunCosts = RunCosts()
    trust: dict[str, Any] | None = None
    """What the objective's evaluator may do, and why; None until learning has begun."""
    coach_gone: dict[str, Any] | None = None
    """Why learning lost its coach, and what to do; None if it did not."""
    chosen: dict[str, Any] | None = None
    """The candidate that a person chose to ship, and its margin; None if the run learns."""

    @property
    def command(self) -> str:
        """The command that begins and continues the run."""
        if self.chosen:
            margin = self.chosen["margin"]
            rule = "" if margin is None else f" --margin {margin:g}"
            return f"ratchet ship {self.chosen['candidate'][:8]}{rule}"
        moved = self.decision is not None and self.decision.margin
        return "the same command" if moved else "ratchet improve"

    @property
    def metric(self) -> str:
        """Name of the objective; `score` until it is known."""
        if self.decision is not None:
            return self.decision.metric
        return (self.trust or {}).get("evaluator") or "score"

    def for_machines(self) -> dict[str, Any]:
        """The JSON of `ratchet improve --json`."""
        decided = self.decision
        return {
            "run": self.run.id,
            "seed": self.run.seed,
            "stage": self.run.stage,
            "baseline_id": self.run.baseline_id,
            "candidate_id": self.run.best_id or None,
            "baseline": decided.baseline if decided else None,
            "candidate": decided.candidate if decided else None,
            "baseline_val": (self.finding or {}).get("baseline_val"),
            "candidate_val": (self.finding or {}).get("best_val"),
            "e_value": decided.e_value if decided else None,
            "pairs": decided.pairs if decided else 0,
            "repetitions": decided.repetitions if decided else 0,
            "verdict": decided.verdict if decided else None,
            "branch": (self.release.branch or None) if self.release else None,
            "pull_request": self.release.request.url
            if self.release and self.release.request
            else None,
            "active": (self.release.agent or None) if self.release else None,
            "evidence": self.evidence or None,
            "message": self.run.message,
            "evaluator": self.trust,
            "coach_gone": self.coach_gone["message"] if self.coach_gone else None,
            **self.costs.for_machines(),
        }


def outcome_of(store: Store, run: Run) -> RunOutcome:
    """Read the outcome of a run from the store."""
    experiment = store.experiments.get(run.experiment_id) if run.experiment_id else None
    entries = store.journal.read(run.id)
    proposals = [
        msgspec.convert(body, Proposal) for key, body in entries if key.startswith("proposal/")
    ]
    return RunOutcome(
        run=run,
        decision=experiment.decision if experiment else None,
        evidence=experiment.evidence_path if experiment else "",
        release=store.releases.get(run.release_id) if run.release_id else None,
        finding=store.journal.get(run.id, "finding"),
        proposals=tuple(sorted(proposals, key=lambda p: p.number)),
        costs=costs_of(store, run),
        trust=store.journal.get(run.id, "trust"),
        coach_gone=store.journal.get(run.id, COACH_GONE),
        chosen=store.journal.get(run.id, CHOSEN),
    )


def costs_of(store: Store, run: Run, since: float | None = None) -> RunCosts:
    """What a run has spent, in total or since a time in Unix seconds."""
    calls = call_costs(store.journal.read(run.id, since))
    return RunCosts(
        rollouts=sum(store.rollouts.counts(queue=run.id, since=since).values()),
        coach_calls=calls.coach_calls,
        judge_calls=calls.judge_calls,
        of_coach=calls.of_coach,
        of_judges=calls.of_judges,
        cost=total_cost([store.rollouts.cost(queue=run.id, since=since), calls.cost]),
    )


class Refusal(msgspec.Struct, frozen=True):
    """A refused candidate, or an unusable answer of the coach."""

    why: str
    candidate_id: str = ""
    """Empty for a coach's answer."""


def refusals_in(entries: Sequence[tuple[str, Any]]) -> list[Refusal]:
    """The refusals among a journal's entries, in order."""
    refusals = []
    for key, why in entries:
        if not why:
            continue  # the candidate passed
        if key.startswith(VERDICT_PREFIXES):
            refusals.append(Refusal(str(why), key.partition("/")[2]))
        elif key.startswith(UNUSABLE_PREFIX):
            refusals.append(Refusal(str(why)))
    return refusals
