"""Report cards of a project's evaluators; an evaluator that may only advise is refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from ratchet.autopilot.project import Project
from ratchet.autopilot.run_spending import announced
from ratchet.evaluate import Evaluator, FunctionEvaluator, basis_of, broken, is_failure
from ratchet.evaluate.report_card import Case, cached_card, make_card, make_cases, may_decide
from ratchet.evaluate.report_card.thresholds import LABELS
from ratchet.learn import Evaluation
from ratchet.store import Store
from ratchet.types import ConfigError, Dataset, ReportCard, Task
from ratchet.types.wording import counted

ROLLOUTS = 400
"""How many of the newest succeeded rollouts a card uses besides the labelled ones."""


class Trust(msgspec.Struct, frozen=True):
    """What the objective's evaluator may do in a run, and why."""

    verdict: str
    sentence: str
    card: str = ""
    """Id of the report card; empty when nothing was measured."""


def vouched_for(project: Project, evaluators: Sequence[Evaluator]) -> frozenset[str]:
    """Names of the evaluators that the project vouches for."""
    sections = project.config.evaluators
    # Those that are always measured follow the configured ones.
    return frozenset(e.name for e, s in zip(evaluators, sections, strict=False) if s.vouched)


def cases_in(store: Store, tasks: Sequence[Task] = ()) -> list[Case]:
    """Cases for report cards: labelled rollouts, the newest other successes, and tasks.

    Args:
        store: The store.
        tasks: Tasks whose expected answers may serve as outputs: none of the test tasks.
    """
    labels = store.labels.list(criterion="")
    labelled = store.rollouts.get([label.rollout_id for label in labels if label.rollout_id])
    newest, _ = store.rollouts.list(status="succeeded", limit=ROLLOUTS)
    return make_cases({r.id: r for r in (*labelled.values(), *newest)}.values(), labels, tasks)


def tasks_to_measure_with(dataset: Dataset) -> tuple[Task, ...]:
    """The tasks of a project whose expected answers may serve as outputs."""
    return (*dataset.split("train"), *dataset.split("val"))


async def report_card(
    project: Project,
    store: Store,
    evaluators: Sequence[Evaluator],
    evaluator: Evaluator,
    cases: Sequence[Case],
    *,
    seed: int = 0,
    on_probe: Callable[[int, int], None] | None = None,
) -> ReportCard:
    """The report card of an evaluator: the stored one if there is one for these cases, else a new
    one, which is stored. Each command gets the same card of the same evaluator and cases.

    Args:
        project: The project.
        store: Keeps the cards.
        evaluators: The project's evaluators.
        evaluator: The one to measure, of these.
        cases: Real outputs and tasks.
        seed: Selects outputs and places of damage.
        on_probe: Called with the number of scores that were made, and of all.
    """
    vouched = evaluator.name in vouched_for(project, evaluators)
    stored = cached_card(store, evaluator, cases, seed=seed, vouched=vouched)
    if stored is not None:
        return store.report_cards.get(stored.id) or stored
    if isinstance(evaluator, FunctionEvaluator):
        evaluator.attach(store)
    card = await make_card(
        evaluator,
        cases,
        spans_of=store.spans.of,
        seed=seed,
        vouched=vouched,
        now=time.time(),
        on_probe=on_probe,
    )
    store.report_cards.put(card)
    return card


def check_objective(
    project: Project, store: Store, evaluators: Sequence[Evaluator], objective: str
) -> None:
    """Refuse, before anything is spent, an objective that no measurement could admit.

    Raises:
        ConfigError: It is an opinion without enough labels, and the project does not vouch for it.
    """
    evaluator = _named(evaluators, objective)
    if evaluator is None:
        return
    vouched = objective in vouched_for(project, evaluators)
    if vouched or basis_of(evaluator) != "opinion" or _is_judge(evaluator):
        return
    labels = sum(case.labelled_right is not None for case in cases_in(store))
    best = may_decide(evaluator, labels, vouched=vouched)
    if best != "decides":
        missing = LABELS - labels
        reads = bool(getattr(evaluator, "reads_expected", False))
        compares = "is an opinion" if reads else "does not compare with the expected answer"
        raise _refusal(
            objective,
            f"it {compares}, and {labels or 'none'} of its outputs"
            f" {'is' if labels <= 1 else 'are'} labelled",
            missing,
        )


def check_evaluators(
    evaluators: Sequence[Evaluator], names: Collection[str], evaluations: Sequence[Evaluation]
) -> None:
    """Refuse to learn by evaluators that have not scored most of the baseline's outputs.

    Args:
        evaluators: The project's evaluators.
        names: Those that the decision depends on: the objective and the guardrails.
        evaluations: The baseline's.

    Raises:
        ConfigError: One of them is broken, and the sentence names its exception.
    """
    for evaluator in evaluators:
        if evaluator.name not in names or basis_of(evaluator) == "measurement":
            continue
        scored = [
            evaluation
            for evaluation in evaluations
            if evaluation.rollout.status == "succeeded" and evaluator.name in evaluation.scores
        ]
        scores = [evaluation.scores[evaluator.name] for evaluation in scored]
        if sentence := broken(evaluator.name, scores, "the baseline's outputs"):
            failed = next(
                evaluation.rollout.id
                for evaluation, score in zip(scored, scores, strict=True)
                if score.value is None or is_failure(score)
            )
            raise ConfigError(
                sentence,
                hint=f"Look at one output: ratchet evaluators try {evaluator.name} {failed}",
            )


def why_never_measured(metric: str, evaluations: Sequence[Evaluation]) -> str:
    """Why a guardrail's metric has no value on any of the baseline's outputs.

    Args:
        metric: The guardrail's.
        evaluations: The baseline's.

    Returns:
        A sentence; empty if it was measured at least once.
    """
    scores = [
        evaluation.scores[metric]
        for evaluation in evaluations
        if evaluation.rollout.status == "succeeded" and metric in evaluation.scores
    ]
    if not scores or any(score.value is not None for score in scores):
        return ""
    return scores[0].error or f"Nothing measured {metric}."


async def trust_objective(
    project: Project,
    store: Store,
    evaluators: Sequence[Evaluator],
    objective: str,
    dataset: Dataset,
    say: Callable[[str], None] = lambda _: None,
) -> Trust | None:
    """Find or make the report card of the objective's evaluator, and refuse a failing evaluator.

    Args:
        project: The project.
        store: Keeps the cards.
        evaluators: Its evaluators.
        objective: Name of the objective.
        dataset: The project's tasks.
        say: Called with sentences for the user.

    Returns:
        None while there is no output that could be measured with: no rollout has ended yet, and
        expected answers are not outputs of this agent.

    Raises:
        ConfigError: The evaluator may not decide.
    """
    evaluator = _named(evaluators, objective)
    if evaluator is None:
        return Trust("decides", f"{objective!r} is the agent's own score, and has no report card.")
    basis = basis_of(evaluator)
    if basis == "measurement":
        return Trust("decides", f"The evaluator {objective!r} decides: it measures a quantity.")
    cases = cases_in(store, tasks_to_measure_with(dataset))
    labels = sum(case.labelled_right is not None for case in cases)
    if basis == "opinion" and labels < LABELS:
        check_objective(project, store, evaluators, objective)
        if _is_judge(evaluator):
            ground = "a gain by it is promoted only if people's labels of random pairs prove it"
            return Trust("advises", f"The judge {objective!r} advises: {ground}.")
        # Measuring it could only cost: there is nothing to compare it with.
        ground = "only because the project vouches for it (vouched = true)"
        return Trust("decides", f"The evaluator {objective!r} decides: {ground}.")

    def begins(scored: int, of: int) -> None:
        if not scored and (announcement := announced_card(evaluator, cases, of)):
            say(announcement)

    card = await report_card(project, store, evaluators, evaluator, cases, on_probe=begins)
    damaged = any(check.n for check in card.checks if check.name.startswith("damage"))
    if not card.rollouts and not damaged and card.verdict != "rejected":
        return None
    if card.verdict != "decides":
        remedy: str = getattr(evaluator, "remedy", "")
        raise _refusal(objective, _clause(card), card.labels_needed, card.verdict, remedy)
    agreed = f"; {counted(card.labels, 'output')} labelled" if card.labels else ""
    sentence = f"The evaluator {objective!r} decides: {_clause(card)}{agreed}."
    return Trust(card.verdict, sentence, card.id)


def announced_card(evaluator: Evaluator, cases: Sequence[Case], scores: int) -> str:
    """Sentence on the model calls that a report card needs; empty if they are few.

    Args:
        evaluator: The evaluator.
        cases: Its cases; one of them tells what a call costs at most.
        scores: Number of scores that the card takes.
    """
    calls = scores * getattr(evaluator, "calls_per_score", 0)
    if not calls or not cases:
        return ""
    most = getattr(evaluator, "most_usd", lambda rollout: None)(cases[0].rollout)
    return announced(f"The report card of {evaluator.name!r}", calls, most, at_most=True)


def _is_judge(evaluator: Evaluator) -> bool:
    """Whether people's labels of random pairs decide an experiment on this evaluator's score."""
    return bool(getattr(evaluator, "is_judge", False))


def _named(evaluators: Sequence[Evaluator], name: str) -> Evaluator | None:
    return next((evaluator for evaluator in evaluators if evaluator.name == name), None)


def _refusal(
    name: str, why: str, labels: int | None, verdict: str = "advises", remedy: str = ""
) -> ConfigError:
    may = {
        "advises": "may only advise",
        "rejected": "is rejected by its report card",
    }.get(verdict, "is not known well enough")
    ways = []
    if labels:
        ways.append(f"label {counted(labels, 'rollout')} (ratchet label)")
    if verdict == "rejected":
        remedy = f"{remedy} Vouching does not help a rejected evaluator.".lstrip()
    else:
        ways.append("vouch for it (vouched = true under its [[evaluators]])")
    ways.append("name another under [objective]")
    return ConfigError(
        f"The evaluator {name!r} cannot decide an experiment, because it {may}: {why}.",
        hint=f"{remedy} {_listed(ways)}. See: ratchet evaluators check {name}.".strip(),
    )


def _listed(ways: Sequence[str]) -> str:
    alternatives = ", or ".join(ways)
    if len(ways) > 1:
        return f"Either {alternatives}"
    return f"{alternatives[:1].upper()}{alternatives[1:]}"


def _clause(card: ReportCard) -> str:
    reason: Any = card.reasons[0] if card.reasons else "no check failed"
    return f"{reason[:1].lower()}{reason[1:]}".rstrip(".")
