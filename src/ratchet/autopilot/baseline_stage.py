"""The baseline stage: runs the unchanged agent on the val tasks, and checks the objective."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from ratchet.autopilot.chosen_candidate import level_sentence
from ratchet.autopilot.earlier_runs import earlier_runs
from ratchet.autopilot.experiment import next_level, reach
from ratchet.autopilot.failed_rollout import require_success
from ratchet.autopilot.improve_run import MARGIN_KEY, UNGUARDED_KEY, ImproveRun
from ratchet.autopilot.prompt_discovery import unrecognised
from ratchet.autopilot.proof_outlook import proof_outlook, variance
from ratchet.autopilot.report_cards import (
    check_evaluators,
    check_objective,
    trust_objective,
    why_never_measured,
)
from ratchet.learn import Evaluation, mean
from ratchet.llm import paid_from
from ratchet.prove.tasks_needed import provable_margin
from ratchet.run.paid import RolloutRunner
from ratchet.types import SPLITS, AgentError, InputError, total_cost
from ratchet.types.wording import counted


async def check_before(work: ImproveRun) -> None:
    """Report what the tasks can prove, and refuse an objective that may not decide.

    Raises:
        InputError: A split that is needed has no task that the objective can score.
        ConfigError: The objective may not decide.
    """
    _say_unanswered(work)
    _say_reach(work)
    check_objective(work.project, work.store, work.evaluators, work.objective)
    await trust_once(work)


def _say_unanswered(work: ImproveRun) -> None:
    """Report how many tasks are left out because they have no expected answer.

    Raises:
        InputError: None of a split that is needed is left.
    """
    tasks = work.dataset.tasks
    if not work.answered or all(task.expected is not None for task in tasks):
        return
    for split in SPLITS:
        if work.dataset.split(split) and not work.tasks(split):
            raise InputError(
                f"No {split} task of {work.dataset.name!r} has an expected answer, which the"
                f" objective {work.objective!r} needs.",
                hint=_where_answers_go(work),
            )
    unanswered = sum(task.expected is None for task in tasks)
    work.watcher.message(
        f"{unanswered} of {len(tasks)} tasks have no expected answer, which"
        f" {work.objective!r} needs: they are left out."
    )


def _where_answers_go(work: ImproveRun) -> str:
    """How tasks get expected answers."""
    tasks = work.project.config.tasks
    if tasks.dataset is None:
        return (
            f'Add "expected" to the tasks in {tasks.file}, or name the field that holds the'
            ' answers, such as expected = "answer" under [tasks].'
        )
    return (
        "Add answers: ratchet feedback --correction and then ratchet datasets capture, or a file "
        "and ratchet datasets import."
    )


def _say_reach(work: ImproveRun) -> None:
    """Report how the tasks are split, and what cannot be proved on them."""
    if work.dataset.reason and work.project.config.tasks.dataset is None:
        sizes = {split: len(work.tasks(split)) for split in SPLITS}
        splits = ", ".join(f"{size} {split}" for split, size in sizes.items())
        work.watcher.message(
            f"{counted(sum(sizes.values()), 'task')}: {splits}. {work.dataset.reason}"
        )
    if work.chosen is not None:
        work.watcher.message(level_sentence(next_level(work.setting(work.baseline), work.store)))
    for sentence in reach(work.setting(work.baseline), work.store):
        work.watcher.message(sentence)


async def measure_baseline(work: ImproveRun, runner: RolloutRunner) -> None:
    """Run the unchanged agent on the val tasks."""
    lab = work.lab(runner)
    val = work.tasks("val")
    work.watcher.expects(len(val))
    work.announce("The baseline", len(val))
    used, before = work.judges_used, lab.spent.dollars
    evaluations = await lab.evaluate(work.baseline, val)
    costs = [evaluation.rollout.cost for evaluation in evaluations]
    judged = lab.spent.dollars - before - total_cost(costs).known_usd
    work.spending.set_price(
        costs,
        max(0.0, judged, work.judges_used - used),
        [run.id for run in earlier_runs(work.run, work.store)],
    )
    require_success([e.rollout for e in evaluations], work.store, "val task")
    check_evaluators(
        work.evaluators,
        {work.objective, *(g.metric for g in work.configured_guardrails)},
        evaluations,
    )
    _fix_guardrails(work, evaluations)
    value = mean(evaluations)
    if all(evaluation.value is None for evaluation in evaluations):
        error = next(iter(s.error for s in evaluations[0].scores.values() if s.error), "")
        raise AgentError(
            f"The objective {work.objective!r} gave no score on any of {len(evaluations)} val"
            f" tasks. The first error: {error or 'none; the agent returned no reward.'}",
            hint="Run a task by hand: ratchet run.",
        )
    work.watcher.baseline(value, len(evaluations))
    scores = [evaluation.worth for evaluation in evaluations]
    _fix_margin(work, scores)
    if not work.margin:
        for sentence in proof_outlook(
            work.dataset,
            scores,
            answered=work.answered,
            alpha=next_level(work.setting(work.baseline), work.store),
            min_gain=work.project.config.prove.min_gain,
            repetitions=work.project.config.prove.repetitions,
            stored=work.project.config.tasks.dataset is not None,
            store=work.store,
            now=time.time(),
        ):
            work.watcher.message(sentence)
    if work.agent.prompts_in_calls:
        ids = [evaluation.rollout.id for evaluation in evaluations]
        if note := unrecognised(work.store, ids):
            work.watcher.message(note)
    work.enter("learn")


async def trust_once(work: ImproveRun) -> None:
    """Refuse an objective that may not decide, judged by expected answers or the baseline's
    outputs.
    """
    if work.store.journal.get(work.run.id, "trust") is not None:
        return
    with paid_from(await work.spending.account()):
        trust = await trust_objective(
            work.project,
            work.store,
            work.evaluators,
            work.objective,
            work.dataset,
            work.watcher.message,
        )
    if trust is None:
        return
    trust_entry = {**msgspec.to_builtins(trust), "evaluator": work.objective}
    work.store.journal.append(work.run.id, "trust", trust_entry, time.time())
    work.watcher.message(trust.sentence)


def _fix_guardrails(work: ImproveRun, evaluations: Sequence[Evaluation]) -> None:
    """Fix and report which guardrails apply: none that is a default and measures nothing."""
    unguarded = []
    for guardrail in work.configured_guardrails:
        reason = why_never_measured(guardrail.metric, evaluations)
        if not reason:
            continue
        if guardrail.metric in work.unchosen:
            unguarded.append(guardrail.metric)
            work.watcher.message(
                f"{reason} So no guardrail on {guardrail.metric} applies: a candidate may raise"
                f" {guardrail.metric} unnoticed."
            )
        else:
            work.watcher.message(
                f"{reason} So the guardrail on {guardrail.metric} will stop every candidate. To"
                " decide without it, add to ratchet.toml:\n"
                f'[[guardrails]]\nmetric = "{guardrail.metric}"\noff = true'
            )
    if unguarded:
        entry = {"metrics": unguarded}
        work.store.journal.append(work.run.id, UNGUARDED_KEY, entry, time.time())


def _fix_margin(work: ImproveRun, scores: Sequence[float]) -> None:
    """Fix and report the margin of an algorithm whose candidates have to be no worse."""
    if not work.seeks_no_worse:
        return
    chosen: float | None = getattr(work.algorithm, "margin", None)
    tasks = len(work.tasks("test"))
    if chosen is None:
        # As if half of the spread of the scores were common to both candidates.
        alpha = next_level(work.setting(work.baseline), work.store)
        margin = provable_margin(alpha, tasks, variance(scores))
        why = (
            f"the tightest margin that {counted(tasks, 'test task')} can likely prove, given the "
            "spread of the val scores"
        )
    else:
        margin, why = chosen, "the configured margin"
    work.store.journal.append(work.run.id, MARGIN_KEY, {"margin": margin}, time.time())
    work.watcher.message(
        f"A candidate ships if it is proved to score at most {margin:g} lower: {why}."
    )
