"""A run's state and results: what `improve`, `demo` and `status` print at their end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from rich.markup import escape

from ratchet.cli.console import counted, display_path, format_dollars, number, out, short, table
from ratchet.learn import Proposal
from ratchet.store import Store
from ratchet.types import Cost, Decision, GuardrailResult, Release, Run, total_cost


class RunCosts(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has spent so far, in all stages."""

    rollouts: int = 0
    coach_calls: int = 0
    of_coach: Cost = Cost()
    cost: Cost = Cost()
    """Of rollouts and coach calls."""

    def __str__(self) -> str:
        parts = [counted(self.rollouts, "rollout")]
        if self.coach_calls:
            parts.append(counted(self.coach_calls, "coach call"))
        if self.cost != Cost():
            of_coach = f", {format_dollars(self.of_coach.usd)} of it for the coach"
            parts.append(f"{self.cost}{of_coach if self.of_coach.usd else ''}")
        return "; ".join(parts)

    def for_machines(self) -> dict[str, Any]:
        """The costs as JSON; dollars are null when a call's price is unknown."""
        return {
            "rollouts": self.rollouts,
            "coach_calls": self.coach_calls,
            "coach_dollars": self.of_coach.usd,
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
        costs=_costs(store, run, entries),
        trust=store.journal.get(run.id, "trust"),
    )


def _costs(store: Store, run: Run, entries: Sequence[tuple[str, Any]]) -> RunCosts:
    calls = [body for key, body in entries if key.startswith("coach/")]
    checks = [reply for key, body in entries if key.startswith("coach-check/") for reply in body]
    replies = [*calls, *checks]
    of_coach = total_cost(Cost.of(reply["cost_usd"], reply["model"]) for reply in replies)
    return RunCosts(
        rollouts=sum(store.rollouts.counts(queue=run.id).values()),
        coach_calls=len(calls),
        of_coach=of_coach,
        cost=total_cost([store.rollouts.cost(queue=run.id), of_coach]),
    )


def print_decision(decided: Decision) -> None:
    """Print a decision as a table: scores and guardrails, before and after."""
    low, high = decided.interval
    rows = table("", "baseline", "candidate", "change", "e-value", right=("baseline", "candidate"))
    rows.add_row(
        decided.metric,
        number(decided.baseline),
        number(decided.candidate),
        escape(f"{decided.candidate - decided.baseline:+.3f} [{low:+.3f}, {high:+.3f}]"),
        f"{decided.e_value:.3g} (needs {1 / decided.alpha:.3g})",
    )
    for guardrail in decided.guardrails:
        unit = f" {guardrail.unit}" if guardrail.unit and guardrail.measured else ""
        rows.add_row(
            f"{guardrail.metric} (guardrail)",
            _mean(guardrail.baseline) + unit,
            _mean(guardrail.candidate) + unit,
            standing(guardrail),
            f"{guardrail.e_value:.3g}",
        )
    out.print(rows)


def standing(guardrail: GuardrailResult) -> str:
    """State of a guardrail, as text."""
    if not guardrail.measured:
        return "not measured"
    return "holds" if guardrail.passed else "not proved to hold"


def _mean(value: float | None) -> str:
    return "not measured" if value is None else number(value, 4)


def print_outcome(outcome: RunOutcome) -> None:
    """Print the result of a run and what to do next."""
    run, decided, release = outcome.run, outcome.decision, outcome.release
    out.print()
    if decided is not None:
        runs = f", each run {decided.repetitions} times" if decided.repetitions > 1 else ""
        out.print(f"Candidate [bold]{short(run.best_id)}[/] over {decided.pairs} test tasks{runs}")
        print_decision(decided)
        if outcome.trust:
            out.print(outcome.trust["sentence"], style="dim", markup=False)
        out.print()
    if release is not None and release.agent:
        out.print(
            f"[bold green]Proved better, and active at the gateway[/] for calls of {release.agent}."
            " Your source is unchanged."
        )
        steps = table("", "")
        steps.show_header = False
        steps.add_row("what to paste where", display_path(release.pull_request))
        steps.add_row("check every number", f"ratchet verify {display_path(outcome.evidence)}")
        steps.add_row("undo it", f"ratchet rollback {short(release.id)}")
        out.print(steps)
    elif release is not None:
        out.print(
            "[bold green]Proved better and shipped as a branch.[/] Your working tree is unchanged."
        )
        steps = table("", "")
        steps.show_header = False
        steps.add_row("what changed", f"git diff {release.base[:10]} {release.branch}")
        steps.add_row("the pull request's text", display_path(release.pull_request))
        steps.add_row("check every number", f"ratchet verify {display_path(outcome.evidence)}")
        if release.request:
            steps.add_row("pull request", release.request.url)
        else:
            steps.add_row("open a pull request", "ratchet ship")
            steps.add_row("or merge it", f"git merge {release.branch}")
        steps.add_row("undo it", f"ratchet rollback {short(release.id)}")
        out.print(steps)
    elif run.stage == "ship":
        out.print("[bold green]Proved better.[/] Ship it with: ratchet improve")
    elif run.stage == "prove":
        out.print("[bold yellow]The decision is withheld until people have labelled.[/]")
        out.print(run.message, markup=False)
    elif run.stage == "no_gain":
        out.print("[bold yellow]No significant gain: nothing is shipped.[/]")
        out.print(run.message, markup=False)
    out.print(f"Spent: {outcome.costs}.", markup=False, style="dim")
