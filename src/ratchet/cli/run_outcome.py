"""Prints a run's state and results, for `improve`, `demo` and `status`."""

from __future__ import annotations

from rich.markup import escape

from ratchet.autopilot.run_outcome import RunCosts, RunOutcome
from ratchet.cli.console import display_path, number, one_line, out, short, table
from ratchet.ship.headline import saved
from ratchet.types import Cost, Decision, GuardrailResult
from ratchet.types.interval_text import interval_ends
from ratchet.types.wording import counted


def costs_text(costs: RunCosts) -> str:
    """What a run has spent in all its stages, as text."""
    parts = [
        f"{counted(costs.rollouts, 'rollout')} of the agent",
        *_calls(costs.coach_calls, "coach", costs.of_coach),
        *_calls(costs.judge_calls, "judge", costs.of_judges),
    ]
    if costs.cost.known_usd:
        parts.append(f"total cost {costs.cost}")
    elif costs.cost.unpriced:
        from ratchet.llm import why_unknown  # which takes long to import

        parts.append(f"cost unknown: {'; '.join(map(why_unknown, costs.cost.unpriced))}")
    return "; ".join(parts)


def _calls(calls: int, whose: str, cost: Cost) -> list[str]:
    dollars = f" for {cost}" if cost.known_usd else ""
    return [f"{counted(calls, f'{whose} call')}{dollars}"] if calls else []


_HEADS = {"guardrail": "Better, but not proved safe", "harm": "Proved worse"}
"""Headings of a run without a release, for verdicts other than a missing gain."""


def print_decision(decided: Decision) -> None:
    """Print a decision as a table: scores and guardrails, before and after."""
    low, high = interval_ends(*decided.interval)
    rows = table("", "baseline", "candidate", "change", "e-value", right=("baseline", "candidate"))
    rows.add_row(
        decided.metric,
        number(decided.baseline),
        number(decided.candidate),
        escape(f"{decided.candidate - decided.baseline:+.3f} [{low}, {high}]"),
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
    for result in decided.frozen:
        rows.add_row(
            escape(f"{one_line(result.title, 40)} (fixed before)"),
            _mean(result.baseline),
            _mean(result.candidate),
            "holds" if result.passed else "not proved to hold",
            f"{result.e_value:.3g}",
        )
    out.print(rows)


def standing(guardrail: GuardrailResult) -> str:
    """State of a guardrail, as text."""
    if not guardrail.measured:
        return "not measured"
    return "holds" if guardrail.passed else "not proved to hold"


def more_tasks(decided: Decision, command: str) -> str:
    """Advice about a gain that was not proved, with the command to run next."""
    return (
        f"Add about {counted(decided.more_pairs, 'test task')} to the task file, or to your dataset"
        f" (ratchet datasets capture NAME --split 0,0,1), and run {command} again. Or open a "
        "draft for people to decide on: ratchet ship --draft."
    )


def other_margins(decided: Decision, seed: int) -> str:
    """What to do if only guardrails held a better candidate back; empty if they did not."""
    metrics = [each.metric for each in decided.guardrails if each.measured and not each.passed]
    if decided.verdict != "guardrail" or not metrics:
        return ""
    return (
        f"If the change of {' and '.join(metrics)} is acceptable, set a larger margin or off = true"
        f" for {'it' if len(metrics) == 1 else 'them'} under [[guardrails]] in ratchet.toml, and"
        f" search again: ratchet improve --seed {seed + 1}."
    )


def _mean(value: float | None) -> str:
    return "not measured" if value is None else number(value, 4)


def print_outcome(outcome: RunOutcome) -> None:
    """Print the result of a run and what to do next."""
    run, decided, release = outcome.run, outcome.decision, outcome.release
    margin = decided.margin if decided is not None else 0.0
    proved = "Proved no worse" if margin else "Proved better"
    out.print()
    if decided is not None:
        runs = f", each run {decided.repetitions} times" if decided.repetitions > 1 else ""
        out.print(
            f"Candidate [bold]{short(run.best_id)}[/] over"
            f" {counted(decided.pairs, 'test task')}{runs}"
        )
        print_decision(decided)
        if margin and decided.verdict == "promote":
            text = saved(decided)
            out.print(f"{text[:1].upper()}{text[1:]}.", markup=False)
        if outcome.trust:
            out.print(outcome.trust["sentence"], style="dim", markup=False)
        out.print()
    if release is not None and release.state == "rolled_back":
        out.print(f"[bold yellow]{proved} and shipped, but since rolled back.[/]")
        out.print("To prove it again, run the same command with another --seed.", markup=False)
    elif release is not None and release.agent:
        out.print(
            f"[bold green]{proved}, and released at the gateway[/] for calls of {release.agent}."
            " Your source is unchanged; the file below says why, and what to paste where."
        )
        steps = table("", "")
        steps.show_header = False
        steps.add_row("the text to paste, and where", display_path(release.pull_request))
        steps.add_row("check every number", f"ratchet verify {display_path(outcome.evidence)}")
        steps.add_row("undo it", f"ratchet rollback {short(release.id)}")
        out.print(steps)
    elif release is not None:
        out.print(
            f"[bold green]{proved} and shipped as a branch.[/] Your working tree is unchanged."
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
        out.print(f"[bold green]{proved}.[/] Ship it with: {outcome.command}")
    elif run.stage == "prove":
        out.print("[bold yellow]The decision is withheld until people have labelled outputs.[/]")
        out.print(run.message, markup=False)
    elif run.stage == "not_proved":
        out.print("[bold yellow]Not proved: nothing is released.[/]")
        out.print(run.message, markup=False)
        if decided is not None:
            out.print(more_tasks(decided, outcome.command), markup=False)
    elif run.stage == "no_gain":
        head = _HEADS.get(decided.verdict if decided else "", "No significant gain")
        if margin and decided is not None and decided.verdict != "harm":
            head = "Not proved to be no worse"
        out.print(f"[bold yellow]{head}: nothing was shipped.[/]")
        out.print(run.message, markup=False)
        if decided is not None and (advice := other_margins(decided, run.seed)):
            out.print(advice, markup=False)
    if outcome.coach_gone:
        out.print(f"Found without the coach: {outcome.coach_gone['message']}", markup=False)
    out.print(f"Spent: {costs_text(outcome.costs)}.", markup=False, style="dim")
