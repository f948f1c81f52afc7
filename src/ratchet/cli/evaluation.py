"""`ratchet eval`: mean scores of candidates on a split, with intervals."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from ratchet.autopilot import Project, open_runner
from ratchet.autopilot.agent_model import agent_model
from ratchet.autopilot.batch import Batch, evaluate_batch
from ratchet.autopilot.failed_rollout import failed_call_in, failure_of
from ratchet.autopilot.project_evaluators import objective_of, project_evaluators
from ratchet.autopilot.project_tasks import project_dataset
from ratchet.autopilot.prompt_discovery import NoPrompt, discover_prompts
from ratchet.autopilot.report_cards import check_objective, trust_objective
from ratchet.autopilot.task_inputs import check_task_inputs, same_for_all
from ratchet.bind.discover import SUPPORT
from ratchet.cli.console import (
    DatasetOption,
    Folder,
    Json,
    SkipBad,
    number,
    one_line,
    out,
    print_json,
    project_in,
    short,
    table,
    wait_for,
)
from ratchet.cli.errors import err
from ratchet.cli.progress import TerminalWatcher
from ratchet.cli.selection import select_candidates, select_tasks
from ratchet.evaluate import Evaluator, broken, is_failure
from ratchet.run import FileLock
from ratchet.store import Store
from ratchet.types import AgentError, Candidate, ConfigError, Score
from ratchet.types.wording import counted

MIN_SAME_ANSWERS = 5
"""Minimum number of tasks that got the same answer for it to be worth a remark."""

ROLLOUTS_READ = 50
"""Maximum number of rollouts whose spans are in memory at the same time."""


def evaluate(
    folder: Folder = Path("."),
    split: Annotated[
        str | None,
        typer.Option(help="train, val, test or all; by default val, or all if val has no task."),
    ] = None,
    candidate: Annotated[
        list[str] | None,
        typer.Option("--candidate", "-c", help="Start of a candidate's id, or source; repeatable."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of tasks.")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Rollouts per task.")] = 1,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Run the rollouts again even if they are cached.")
    ] = False,
    dataset: DatasetOption = None,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Run the agent on a split and show the mean score of each evaluator.

    Examples:

      ratchet eval

      ratchet eval --split train -c source -c 1a2b3c4d
    """
    project = project_in(folder).with_dataset(dataset)
    lock = FileLock(
        project.prepare_state() / "locks" / "eval.lock", "`ratchet eval` in this project"
    )
    with (
        lock,
        project.open_store() as store,
        TerminalWatcher(err if json else out) as watcher,
        agent_model(project, watcher.message),
    ):
        split, batches, needing = wait_for(
            _evaluate(project, store, watcher, split, candidate, limit, repeat, fresh, skip_bad),
            quiet=json,
            paid_by=project,
        )
        rows = [_summary(batch, store, needing) for batch in batches]
    # Then the scores mean nothing.
    all_failed = all(row["failed"] + row["without_model"] == row["rollouts"] > 0 for row in rows)
    if json:
        print_json({"split": split, "candidates": rows})
    else:
        if not all_failed:
            _print_scores(rows, split)
        _print_failures(rows, split)
    if all_failed:
        raise AgentError(
            "The agent or its model calls failed on every task: nothing was measured.",
            hint="Stored rollouts are shown until they run again: ratchet eval --fresh",
        )


async def _evaluate(
    project: Project,
    store: Store,
    watcher: TerminalWatcher,
    split: str | None,
    names: Sequence[str] | None,
    limit: int | None,
    repeat: int,
    fresh: bool,
    skip_bad: bool,
) -> tuple[str, list[Batch], frozenset[str]]:
    agent = project.load_agent()
    split, tasks = select_tasks(project, split, limit=limit, skip_bad=skip_bad, say=watcher.message)
    check_task_inputs(agent, tasks)
    if sentence := same_for_all(agent, tasks):
        watcher.message(sentence)
    evaluators = project_evaluators(project)
    if agent.prompts_in_calls:
        dataset, _ = project_dataset(project, skip_bad=skip_bad, needs=())
        # The source needs no prompts to be run; what fails shows in its scores.
        only_source = set(names or ["source"]) == {"source"}
        if not only_source or len(dataset.split("train")) >= SUPPORT:
            try:
                await discover_prompts(project, store, agent, dataset, watcher.message)
            except (AgentError, NoPrompt) as error:
                if not only_source:
                    raise
                watcher.message(error.message)
    candidates: list[Candidate] = select_candidates(project, store, agent, names or ["source"])
    queue = f"eval-{agent.source_version()}"
    watcher.expects(len(tasks) * len(candidates) * repeat)
    async with open_runner(project, store, agent, queue, watcher.message, take_over=True) as runner:
        batches = await evaluate_batch(
            candidates,
            tasks,
            evaluators=evaluators,
            store=store,
            runner=runner,
            queue=queue,
            attempts=project.local_attempts,
            repeat=repeat,
            fresh=fresh,
            on_rollout=watcher.rollout,
        )
    for evaluator in evaluators:
        if sentence := getattr(evaluator, "spending", ""):
            watcher.message(sentence)
    needing = [e.name for e in evaluators if getattr(e, "needs_expected", False)]
    unanswered = sum(task.expected is None for task in tasks)
    if needing and unanswered:
        verb = "have" if unanswered > 1 else "has"
        watcher.message(
            f"{unanswered} of {counted(len(tasks), 'task')} {verb} no expected answer: "
            f"{' and '.join(needing)} {'do' if len(needing) > 1 else 'does'} not score "
            f"{'them' if unanswered > 1 else 'it'}."
        )
    if sentence := await _cannot_decide(project, store, agent, evaluators, skip_bad):
        watcher.message(sentence)
    return split, batches, frozenset(needing)


async def _cannot_decide(
    project: Project, store: Store, agent: Any, evaluators: Sequence[Evaluator], skip_bad: bool
) -> str:
    """Why `ratchet improve` would refuse the objective, as far as that can be told at once."""
    if not project.config.evaluators:
        return ""
    try:
        objective = objective_of(project.config, evaluators, agent)
        if any(e.name == objective and getattr(e, "trusted", False) for e in evaluators):
            dataset, _ = project_dataset(project, skip_bad=skip_bad, needs=())
            await trust_objective(project, store, evaluators, objective, dataset)
        else:
            check_objective(project, store, evaluators, objective)
    except ConfigError as error:
        return f"ratchet improve would stop here. {error.message} {error.hint or ''}".rstrip()
    return ""


def means_of(batch: Batch, needing: Collection[str] = ()) -> list[dict[str, Any]]:
    """Mean of each evaluator over a batch, with its interval and the failures.

    Args:
        batch: The rollouts with their scores.
        needing: Evaluators that leave out tasks without an expected answer.
    """
    by_name: dict[str, list[Score]] = {}
    for task, _, scores_of_task in batch.rows:
        for name, score in scores_of_task.items():
            if task.expected is not None or name not in needing:
                by_name.setdefault(name, []).append(score)
    evaluators = []
    for name, scores in by_name.items():
        values = [score.value for score in scores if score.value is not None]
        failed = [score for score in scores if score.value is None or is_failure(score)]
        errors = [score.error or score.rationale for score in failed]
        if values and not scores[0].unit:
            values += [0.0] * (len(scores) - len(values))  # as in learning
        mean = math.fsum(values) / len(values) if values else None
        evaluators.append(
            {
                "evaluator": name,
                "unit": next((score.unit for score in scores), ""),
                "mean": mean,
                "half_width": _half_width(values, mean),
                "n": len(values),
                "errors": len(errors),
                "first_error": errors[0] if errors else "",
                "broken": _broken(name, batch, needing),
            }
        )
    return evaluators


def _summary(batch: Batch, store: Store, needing: Collection[str]) -> dict[str, Any]:
    failures = [rollout for _, rollout, _ in batch.rows if rollout.status != "succeeded"]
    first = failures[0] if failures else None
    succeeded = [rollout for _, rollout, _ in batch.rows if rollout.status == "succeeded"]
    failed_calls = [
        error
        for start in range(0, len(succeeded), ROLLOUTS_READ)
        for spans in store.spans.of_newest_attempts(
            [rollout.id for rollout in succeeded[start : start + ROLLOUTS_READ]]
        ).values()
        if (error := failed_call_in(spans))
    ]
    return {
        "candidate": batch.candidate.id,
        "algorithm": batch.candidate.algorithm,
        "rollouts": len(batch.rows),
        "failed": len(failures),
        "first_failure": f"{first.task_id}: {failure_of(first, store)}" if first else "",
        "without_model": len(failed_calls),
        "first_failed_call": failed_calls[0] if failed_calls else "",
        "only_answer": _only_answer(batch),
        "evaluators": means_of(batch, needing),
    }


def _only_answer(batch: Batch) -> str:
    """The answer that several tasks with different expected answers, or with none, all got."""
    ended = [(task, rollout) for task, rollout, _ in batch.rows if rollout.status == "succeeded"]
    answers = {msgspec.json.encode(rollout.output) for _, rollout in ended}
    expected = {
        msgspec.json.encode(task.expected) for task, _ in ended if task.expected is not None
    }
    tasks = len({task.id for task, _ in ended})
    if tasks < MIN_SAME_ANSWERS or len(answers) > 1 or len(expected) == 1:
        return ""
    return one_line(ended[0][1].output)


def _broken(name: str, batch: Batch, needing: Collection[str]) -> str:
    """Why an evaluator's mean is meaningless; empty if it scored most outputs."""
    scores = [
        scores[name]
        for task, rollout, scores in batch.rows
        if name in scores
        and rollout.status == "succeeded"
        and (task.expected is not None or name not in needing)
    ]
    return broken(name, scores, "the outputs")


def _half_width(values: Sequence[float], mean: float | None) -> float | None:
    """Half the width of the mean's 95 % interval, by the normal approximation."""
    if mean is None or len(values) < 2:
        return None
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return 1.96 * math.sqrt(variance / len(values))


def _print_scores(rows: Sequence[dict[str, Any]], split: str) -> None:
    listing = table("candidate", "evaluator", "mean", "± 95 %", "n", "errors", right=("mean", "n"))
    for row in rows:
        # "discover": of an agent whose prompts were found in its calls.
        own = row["algorithm"] in ("source", "discover")
        label = "source" if own else short(row["candidate"])
        for entry in row["evaluators"]:
            unit = f" {entry['unit']}" if entry["unit"] else ""
            listing.add_row(
                label,
                entry["evaluator"],
                "not measured" if entry["mean"] is None else number(entry["mean"], 4) + unit,
                number(entry["half_width"], 4),
                str(entry["n"]),
                f"[red]{entry['errors']}[/]" if entry["errors"] else "0",
            )
            label = ""
    out.print(f"Mean scores on {split}")
    out.print(listing)


def _print_failures(rows: Sequence[dict[str, Any]], split: str) -> None:
    for row in rows:
        if row["failed"]:
            out.print(
                f"{row['failed']} of {row['rollouts']} rollouts of {short(row['candidate'])} did "
                f"not succeed (--fresh runs them again); the first error: {row['first_failure']}",
                style="yellow",
                markup=False,
            )
        if row["without_model"]:
            out.print(
                f"All model calls failed in {row['without_model']} of {row['rollouts']} rollouts of"
                f" {short(row['candidate'])}, but the agent answered without them; the first "
                f"error: {row['first_failed_call']}",
                style="yellow",
                markup=False,
            )
        if row["only_answer"]:
            out.print(
                f"All answers of {short(row['candidate'])} are the same: {row['only_answer']}",
                style="yellow",
                markup=False,
            )
        for entry in row["evaluators"]:
            if entry["broken"] or entry["errors"]:
                penalty = "" if entry["unit"] else ", which counts as 0"
                times = counted(entry["errors"], "time")
                out.print(
                    entry["broken"]
                    or f"{entry['evaluator']} gave no score {times}{penalty}; the first error: "
                    f"{entry['first_error']}",
                    style="yellow",
                    markup=False,
                )
    if split == "test":
        out.print(
            "Test tasks are for the proof: selecting candidates by them invalidates it.",
            style="yellow",
        )
