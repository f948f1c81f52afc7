"""`ratchet run`: run the agent on one input or on some tasks, and show the results."""

from __future__ import annotations

import json as jsonlib
import time
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import msgspec
import typer
from rich.markup import escape

from ratchet.autopilot import Project, open_runner
from ratchet.autopilot.agent_model import agent_model
from ratchet.autopilot.batch import Batch, evaluate_batch
from ratchet.autopilot.failed_rollout import failed_call_in
from ratchet.autopilot.project_evaluators import project_evaluators
from ratchet.autopilot.project_tasks import project_dataset
from ratchet.autopilot.prompt_discovery import recall_prompts
from ratchet.autopilot.task_inputs import check_task_inputs, same_for_all
from ratchet.cli.console import (
    DatasetOption,
    Folder,
    Json,
    SkipBad,
    one_line,
    out,
    print_json,
    project_in,
    short,
    table,
    wait_for,
)
from ratchet.cli.errors import err
from ratchet.cli.evaluation import means_of
from ratchet.cli.progress import TerminalWatcher
from ratchet.cli.selection import select_candidate, select_tasks
from ratchet.cli.show import print_rollout
from ratchet.run.denials import kept_of, sentence
from ratchet.store import Store
from ratchet.types import AgentError, InputError, Task, content_hash


def run(
    given: Annotated[
        str | None, typer.Argument(metavar="[INPUT]", help="Text, or a JSON object or list.")
    ] = None,
    folder: Folder = Path("."),
    task: Annotated[str | None, typer.Option(help="Id of a task of the task file.")] = None,
    split: Annotated[str | None, typer.Option(help="train, val, test or all.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of tasks, with --split.")] = 10,
    candidate: Annotated[
        str, typer.Option("--candidate", "-c", help="source, best, or the start of an id.")
    ] = "source",
    dataset: DatasetOption = None,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Run the agent on an input, on one task, or on some tasks of a split.

    Examples:

      ratchet run "how do I count words in a list?"

      ratchet run --task q0001 --candidate best

      ratchet run --split val --limit 5
    """
    project = project_in(folder).with_dataset(dataset)
    if sum(value is not None for value in (given, task, split)) != 1:
        raise InputError("Give exactly one of INPUT, --task ID and --split NAME.")
    with project.open_store() as store, TerminalWatcher(err if json else out) as watcher:
        if given is not None:
            tasks = [_ad_hoc(given)]
        else:
            tasks = select_tasks(
                project,
                split or "all",
                limit=limit if split else None,
                skip_bad=skip_bad,
                say=watcher.message,
            ).tasks
        if task is not None:
            tasks = [dataset_task for dataset_task in tasks if dataset_task.id == task]
            if not tasks:
                raise InputError(f"There is no task {task!r} in {project.tasks_label}.")
        watcher.expects(len(tasks))
        with agent_model(project, watcher.message):
            batch = wait_for(
                _run(project, store, watcher, tasks, candidate), quiet=json, paid_by=project
            )
    with project.open_store() as store:
        _report(store, batch, json)


def _ad_hoc(text: str) -> Task:
    value: Any = text
    if text.lstrip()[:1] in ("{", "["):
        try:
            value = jsonlib.loads(text)
        except jsonlib.JSONDecodeError as error:
            raise InputError(f"The input looks like JSON but cannot be parsed: {error}.") from None
    return Task(content_hash([value, time.time()])[:12], value)


async def _run(
    project: Project, store: Store, watcher: TerminalWatcher, tasks: list[Task], name: str
) -> Batch:
    agent = project.load_agent()
    check_task_inputs(agent, tasks)
    if said := same_for_all(agent, tasks):
        watcher.message(said)
    if agent.prompts_in_calls and project.has_tasks():
        recall_prompts(store, agent, project_dataset(project, skip_bad=True, needs=())[0])
    selected = select_candidate(project, store, agent, name)
    judged = tuple(project_evaluators(project)) if project.config.evaluators else ()
    queue = f"run-{uuid4().hex}"  # a unique queue: no other runner claims from it
    async with open_runner(
        project, store, agent, queue, watcher.message, take_over=False
    ) as runner:
        batches = await evaluate_batch(
            [selected],
            tasks,
            evaluators=judged,
            store=store,
            runner=runner,
            queue=queue,
            attempts=project.local_attempts,
            repeat=1,
            fresh=True,
            on_rollout=watcher.rollout,
        )
    return batches[0]


def _report(store: Store, batch: Batch, json: bool) -> None:
    failed = [rollout for _, rollout, _ in batch.rows if rollout.status != "succeeded"]
    if json:
        print_json(
            {
                "candidate": batch.candidate.id,
                "failed": len(failed),
                "mean": {entry["evaluator"]: entry["mean"] for entry in means_of(batch)},
                "rollouts": [
                    {**msgspec.to_builtins(rollout), "scores": msgspec.to_builtins(scores)}
                    for _, rollout, scores in batch.rows
                ],
            }
        )
    elif len(batch.rows) == 1:
        print_rollout(store, batch.rows[0][1])
    else:
        rows = table("rollout", "task", "status", "output", "scores")
        for task, rollout, scores in batch.rows:
            scores_text = ", ".join(
                f"{name} {'error' if score.value is None else format(score.value, '.4g')}"
                for name, score in scores.items()
            )
            answer = rollout.output if rollout.status == "succeeded" else rollout.error
            rows.add_row(
                short(rollout.id),
                task.id,
                rollout.status,
                escape(one_line(answer)),
                scores_text,
            )
        out.print(rows)
        spans = [span for _, rollout, _ in batch.rows for span in store.spans.of(rollout.id)]
        if acts := kept_of(spans):
            out.print(sentence(acts, went_well=not failed), markup=False)
    for _, rollout, _ in batch.rows:
        if rollout not in failed and (error := failed_call_in(store.spans.of(rollout.id))):
            err.print(
                f"All model calls of rollout {short(rollout.id)} failed, but the agent answered "
                f"without them: {error}",
                style="yellow",
                markup=False,
            )
    if len(failed) == len(batch.rows):
        raise AgentError(f"The agent failed: {failed[0].error}")
