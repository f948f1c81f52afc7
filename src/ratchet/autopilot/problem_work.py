"""Prepares work on a problem: its traces become tasks, and the coach is told what goes wrong."""

from __future__ import annotations

import time

import msgspec

from ratchet.autopilot.live_agent import live_agent
from ratchet.autopilot.problem_reports import DAYS
from ratchet.autopilot.project import Project
from ratchet.autopilot.project_evaluators import objective_of, project_evaluators
from ratchet.autopilot.project_tasks import project_dataset
from ratchet.curate import CaptureFilter, capture
from ratchet.curate.capture import ALREADY_A_TASK
from ratchet.store import Store
from ratchet.types import NEEDS_WORK, STAGE_TRANSITIONS, Dataset, InputError, Problem
from ratchet.types.cycle import DAY_S
from ratchet.types.trace import TraceFilter
from ratchet.types.wording import counted

MAX_TASKS = 60
"""Maximum number of tasks made from a problem's newest traces."""

MAX_EXAMPLES_SHOWN = 3
"""Number of examples shown to the coach besides the problem's tasks."""


class ProblemWork(msgspec.Struct, frozen=True):
    """A project that is ready to work on a problem."""

    project: Project
    sentences: tuple[str, ...]
    """What was done to prepare it."""


def find_problem(store: Store, prefix: str) -> Problem:
    """The problem whose id begins with this.

    Raises:
        InputError: There is none, or there are several.
    """
    matches = store.problems.find(prefix)
    if not matches:
        raise InputError(
            f"There is no problem {prefix!r}.", hint="List the problems: ratchet problems."
        )
    if len(matches) > 1:
        raise InputError(
            f"{len(matches)} problems have ids that begin with {prefix!r}.",
            hint="Give more characters of the id.",
        )
    return matches[0]


def prepare(project: Project, store: Store, problem: Problem, now: float) -> ProblemWork:
    """Add the problem's traces to the project's tasks, and tell the coach about it.

    Args:
        project: The project.
        store: Its store.
        problem: The problem.
        now: Unix seconds.

    Raises:
        InputError: The problem needs no work, is another agent's, or none of its traces can become
            a task.
    """
    agent = live_agent(project, store)
    if problem.agent != agent:
        raise InputError(
            f"Problem {problem.id} belongs to the agent {problem.agent!r}, but this project's "
            "agent is"
            f" {agent!r}.",
            hint="Work on it in that agent's project. If this project is that agent's, set"
            f' agent = "{problem.agent}" under [autopilot] in ratchet.toml.',
        )
    if problem.state in ("ignored", "fixed"):
        raise InputError(
            f"Problem {problem.id} is {problem.state}: {problem.reason}",
            hint=f"Reopen it: ratchet problems reopen {problem.id}.",
        )
    underway = store.runs.get(problem.run_ids[-1]) if problem.state == "learning" else None
    if underway is not None and STAGE_TRANSITIONS[underway.stage]:
        # The same tasks, so that the run goes on where it was interrupted.
        dataset = store.datasets.get(underway.dataset_version)
        return ProblemWork(
            told_of(project, store, problem).with_dataset(f"{dataset.name}@{dataset.version}"),
            (f"Run {underway.id[:8]} continues work on problem {problem.id} ({problem.title}).",),
        )
    dataset, sentences = (
        project_dataset(project, store=store, needs=())
        if project.has_tasks()
        else (Dataset(name="problems", tasks=(), splits={}, provenance="captured"), ())
    )
    occurrences = store.problems.occurrences(problem.id, since=now - DAYS * DAY_S, limit=MAX_TASKS)
    ids = frozenset(occurrence.trace_id for occurrence in occurrences)
    shares = project.config.tasks.split
    captured = capture(
        store,
        dataset,
        CaptureFilter(
            traces=TraceFilter(
                agent=problem.agent,
                since_ns=int(min((o.at for o in occurrences), default=now) * 1e9),
                rollouts=True,
            ),
            trace_ids=ids,
        ),
        limit=MAX_TASKS,
        fractions={"train": shares.train, "val": shares.val, "test": shares.test},
        now=now,
    )
    answered = sum(task.task.expected is not None for task in captured.tasks)
    said = [
        *sentences,
        f"Problem {problem.id} ({problem.title}): {counted(len(captured.tasks), 'new task')} from"
        f" its {counted(len(ids), 'newest trace')}, {answered} with an expected answer.",
    ]
    of_problem = [t for t in captured.dataset.tasks if ids.intersection(t.origin.sources)]
    is_covered = any(why.startswith(ALREADY_A_TASK) for why in captured.left_out)
    if not of_problem and not is_covered:
        reasons = "; ".join(f"{count} × {why}" for why, count in captured.left_out.items())
        raise InputError(
            f"No trace of problem {problem.id} can become a task: {reasons or 'there is none'}.",
            hint="Record inputs, or import tasks: ratchet datasets import.",
        )
    if (
        not is_covered
        and _needs_answers(project)
        and all(task.expected is None for task in of_problem)
    ):
        raise InputError(
            f"None of the {counted(len(of_problem), 'task')} of problem {problem.id} has an"
            " expected answer, which the objective needs: a gain would say nothing about the "
            "problem.",
            hint="Give right answers for some of them: ratchet feedback TRACE --correction …, or "
            "label"
            " right answers: ratchet label --traces.",
        )
    if captured.dataset.version != dataset.version:
        if dataset.tasks:  # what it was made of tells later whether the task file has changed
            store.datasets.put(dataset, now)
        store.datasets.put(captured.dataset, now)
    name = f"{captured.dataset.name}@{captured.dataset.version}"
    return ProblemWork(told_of(project.with_dataset(name), store, problem), tuple(said))


def _needs_answers(project: Project) -> bool:
    """Whether the objective compares with an expected answer."""
    agent = project.load_agent()
    evaluators = project_evaluators(project)
    objective = objective_of(project.config, evaluators, agent)
    return any(e.name == objective and getattr(e, "needs_expected", False) for e in evaluators)


def told_of(project: Project, store: Store, problem: Problem) -> Project:
    """The project, with the problem described to its coach."""
    coach = project.config.coach
    guidelines = "\n\n".join(part for part in (coach.guidelines, _told(store, problem)) if part)
    coach = coach.model_copy(update={"guidelines": guidelines})
    return project.with_config(project.config.model_copy(update={"coach": coach}))


def _told(store: Store, problem: Problem) -> str:
    """The description of a problem for the coach; constant while a run works on it."""
    turn = len(problem.run_ids) - (problem.state not in NEEDS_WORK)
    subject, key = f"problem/{problem.id}", f"told/{turn}"
    told = store.journal.get(subject, key)
    if told is None:
        told = store.journal.append(subject, key, _description(store, problem), time.time())
    return str(told)


def _description(store: Store, problem: Problem) -> str:
    lines = [
        "This change is for one problem of the agent in production. Fix it, and keep the rest as it"
        f" is. The problem: {problem.title}"
    ]
    for occurrence in store.problems.occurrences(problem.id, limit=MAX_EXAMPLES_SHOWN):
        lines.append(f"- asked: {occurrence.input[:300]}")
        if occurrence.output:
            lines.append(f"  answered: {occurrence.output[:300]}")
        if occurrence.wrong:
            lines.append(f"  what was wrong: {occurrence.wrong[:300]}")
    return "\n".join(lines)


def begin_work(store: Store, problem: Problem, run_id: str, now: float) -> None:
    """Record that a run is working on a problem."""
    run_ids = (*(id for id in problem.run_ids if id != run_id), run_id)
    store.problems.change(
        problem.id,
        "learning" if problem.state in NEEDS_WORK else problem.state,
        reason=f"Run {run_id[:8]} began to work on it.",
        now=now,
        run_ids=run_ids,
    )
