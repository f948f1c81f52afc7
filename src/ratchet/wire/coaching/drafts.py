"""Drafts of a coach: evaluators with their report cards, and tasks. Nothing uses them yet."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Sequence
from typing import Any

import msgspec

from ratchet.curate.synthesis import BoundedCoach, CoachInputs, Synthesis, synthesize
from ratchet.curate.synthesis.input_schema import infer_schema, loosened
from ratchet.evaluate.generation import (
    KnownOutput,
    ProposedEvaluator,
    contained_evaluator,
    propose_by_llm,
    python_module,
    toml_tables,
)
from ratchet.evaluate.report_card import CardThresholds, make_card, make_cases
from ratchet.sandbox import function_pool
from ratchet.store import Store
from ratchet.types import Dataset, RatchetError, Rollout, Task, content_hash
from ratchet.wire.coaching.bounded import CountedCoach
from ratchet.wire.coaching.opinion import plain

EVALUATORS, TASKS = 4, 10
"""Drafts that a coach is asked for."""
CARD_S = 30.0
"""Seconds after which no damaged output is scored any more, for one report card."""
EVALUATORS_MODULE, TASKS_FILE = "draft_evaluators", "draft_tasks.jsonl"
_KEPT = ("decides", "advises", "insufficient")


class DraftEvaluator(msgspec.Struct, frozen=True):
    """An evaluator that a coach wrote."""

    proposal: ProposedEvaluator
    card: str
    """Verdict of its report card and the reason, or why there is none."""


class DraftEvaluators(msgspec.Struct, frozen=True):
    """The evaluators that are worth reading, and why the others are not."""

    kept: tuple[DraftEvaluator, ...] = ()
    dropped: tuple[str, ...] = ()


async def draft_evaluators(
    coach: CountedCoach, agent: str, tasks: Sequence[dict[str, Any]]
) -> DraftEvaluators:
    """Have a coach write evaluators, and measure those that are code in the sandbox.

    The outputs that they are measured on are the expected answers of starter tasks, and damaged
    copies of them: the agent has not run yet.

    Args:
        coach: The coach.
        agent: What it is told of the agent.
        tasks: Starter tasks.

    Raises:
        CoachUnavailable: The coach cannot be used.
        MethodEnded: It was asked as often as is allowed.
    """
    answered = [one for one in tasks if one.get("expected") is not None]
    examples = [
        KnownOutput(input=one["input"], output=one["expected"], expected=one["expected"], good=True)
        for one in answered
    ]
    proposals, refused = await propose_by_llm(coach, examples, agent=agent, count=EVALUATORS)
    kept: list[DraftEvaluator] = []
    dropped = [plain(one) for one in refused]
    code = [one for one in proposals if one.source]
    kept += [
        DraftEvaluator(one, "none: a judge is measured on outputs that people labelled")
        for one in proposals
        if not one.source
    ]
    if not code:
        return DraftEvaluators(tuple(kept), tuple(dropped))
    cases = make_cases(map(_as_rollout, answered))
    if not cases:
        why = "none: there are no expected answers to measure it on"
        kept += [DraftEvaluator(one, why) for one in code]
        return DraftEvaluators(tuple(kept), tuple(dropped))
    try:
        async with function_pool() as pool:
            for proposal in code:
                try:
                    card = await make_card(
                        contained_evaluator(proposal, pool),
                        cases,
                        spans_of=lambda _: [],
                        thresholds=CardThresholds(),
                        limit_s=CARD_S,
                    )
                except RatchetError as error:
                    dropped.append(f"{proposal.name} was dropped: {plain(error.message)}")
                    continue
                reason = plain(card.reasons[0]) if card.reasons else ""
                if card.verdict in _KEPT:
                    measured = f"on {len(cases)} expected answers, {card.verdict}: {reason}"
                    kept.append(DraftEvaluator(proposal, measured))
                else:
                    dropped.append(f"{proposal.name} was dropped, {card.verdict}: {reason}")
    except RatchetError as error:  # no sandbox: code that a model wrote is not run without one
        kept += [DraftEvaluator(one, f"none: {plain(error.message)}") for one in code]
    return DraftEvaluators(tuple(kept), tuple(dropped))


def _as_rollout(task: dict[str, Any]) -> Rollout:
    """An expected answer as if the agent had given it."""
    id = content_hash([task["input"], task["expected"]])
    return Rollout(
        id=id,
        queue="",
        candidate_id="",
        task_id=id,
        input=task["input"],
        expected=task["expected"],
        output=task["expected"],
        status="succeeded",
    )


async def draft_tasks(
    coach: CountedCoach, agent: str, tasks: Sequence[dict[str, Any]]
) -> Synthesis:
    """Have a coach write inputs that resemble starter tasks; answers are a person's to give.

    Args:
        coach: The coach.
        agent: What it is told of the agent.
        tasks: Starter tasks; at least one.

    Raises:
        CoachUnavailable: The coach cannot be used.
        MethodEnded: It was asked as often as is allowed, and nothing was drawn.
    """
    real = [Task(f"real-{number}", one["input"]) for number, one in enumerate(tasks)]
    dataset = Dataset("starters", tuple(real), dict.fromkeys((one.id for one in real), "train"))
    with (
        tempfile.TemporaryDirectory(prefix="ratchet-coach-") as folder,
        Store.open(f"sqlite:///{folder}/journal.db") as store,
    ):
        inputs = CoachInputs(
            BoundedCoach(coach, store.journal, "init"),
            real,
            loosened(infer_schema([one.input for one in real])),
            random.Random(0),  # noqa: S311
            purpose=agent,
        )
        made = await synthesize(
            dataset, TASKS, methods=("coach",), coach_inputs=inputs, open_answers=True
        )
    return made


def evaluators_text(drafts: Sequence[DraftEvaluator], model: str) -> str:
    """The file of drafted evaluators."""
    proposals = [one.proposal for one in drafts]
    head = (
        f'"""Draft evaluators by {plain(model)}: unproved. Nothing imports this file, so none'
        " decides.\n\nTo use one: read it, copy its table into ratchet.toml, run the agent, and"
        '\nmeasure it: ratchet evaluators check NAME\n"""\n'
    )
    lines = []
    for one in drafts:
        table = toml_tables([one.proposal], EVALUATORS_MODULE)
        lines += ["", f"# {one.proposal.name}. Report card: {one.card}", "#"]
        lines += [f"# {line}".rstrip() for line in table.splitlines()]
    notes = "\n".join(lines) + "\n"
    _, _, body = python_module(proposals).partition('"""\n')
    return f"{head}{notes}{body}"


def tasks_text(tasks: Sequence[Task]) -> str:
    """The file of drafted tasks."""
    return "".join(
        json.dumps(
            {"input": one.input, "metadata": {"draft": "unproved", "by": plain(one.origin.by)}},
            ensure_ascii=False,
        )
        + "\n"
        for one in tasks
    )
