"""The step of the wiring that writes starter tasks and names evaluators."""

from __future__ import annotations

import json
from pathlib import Path

from ratchet.wire.changes import Changes, FileChange, LeftAlone, StepChanges
from ratchet.wire.choices import Choices
from ratchet.wire.facts import Place, RepositoryLook
from ratchet.wire.starters.evaluators import fitting_evaluators
from ratchet.wire.starters.tasks import find_tasks

NAMES = ("tasks.jsonl", "ratchet_tasks.jsonl")


def starters(root: Path, look: RepositoryLook, choices: Choices) -> StepChanges:
    """Write the tasks that the repository has, and the evaluators that fit.

    Args:
        root: The repository.
        look: Its facts.
        choices: What is wired.
    """
    found = find_tasks(root, look, choices)
    folder = "" if choices.project == "." else f"{choices.project}/"
    name = next((name for name in NAMES if not (root / folder / name).exists()), "")
    tables = [one.table for one in fitting_evaluators(look, choices, found)]
    config = {"evaluators": tables}
    if not found.tasks:
        left = LeftAlone(
            "tasks",
            Place(f"{folder}{NAMES[0]}"),
            "The repository shows no inputs of this agent. Write some, one JSON object a line:"
            ' {"input": …, "expected": …}; or take them from use: ratchet datasets capture.',
        )
        return StepChanges(Changes(left_alone=(left,)), config)
    if not name:
        left = LeftAlone(
            "tasks", Place(f"{folder}{NAMES[-1]}"), "It is there already, and is not overwritten."
        )
        return StepChanges(Changes(left_alone=(left,)), config)
    lines = [json.dumps(task, ensure_ascii=False, default=str) for task in found.tasks]
    change = FileChange(
        f"{folder}{name}",
        f"Starter tasks: {found.source}.",
        content="".join(f"{line}\n" for line in lines),
    )
    if name != NAMES[0]:
        config["tasks"] = {"file": name}  # type: ignore[assignment]
    return StepChanges(Changes((change,)), config)
