"""Checks task inputs before anything runs, since settings of [agent] may name their fields."""

from __future__ import annotations

from collections.abc import Sequence

from ratchet.run.program import AnyAgent, ProgramAgent
from ratchet.types import InputError, Task
from ratchet.types.wording import counted
from ratchet.worker.placeholders import names_input


def same_for_all(agent: AnyAgent, tasks: Sequence[Task]) -> str:
    """A sentence if the agent gets nothing of its tasks, so that all run the same; else empty.

    Args:
        agent: The agent.
        tasks: Its tasks.
    """
    if isinstance(agent, ProgramAgent):
        takes_input = agent.spec.handover.takes_input
    else:
        arguments = agent.spec.arguments
        takes_input = arguments is None or names_input([arguments, agent.spec.construct])
    several = len(tasks) > 1
    if takes_input or not (several or any(task.input is not None for task in tasks)):
        return ""
    what = (
        f"All {len(tasks)} tasks run the same: nothing in [agent] takes their input."
        if several
        else "The agent does not get this input: nothing in [agent] takes it."
    )
    return (
        f"{what} Let the agent take its input, and write {{input}} there; or record the agent"
        " again: ratchet init --undo, then ratchet init."
    )


def check_task_inputs(agent: AnyAgent, tasks: Sequence[Task]) -> None:
    """Check that the tasks have what the settings of [agent] name.

    An entry without [agent.arguments] takes what it takes: its rollouts tell.

    Raises:
        InputError: Some have not.
    """
    if not isinstance(agent, ProgramAgent) and agent.spec.arguments is None:
        return
    problems: list[tuple[str, InputError]] = []
    for task in tasks:
        try:
            agent.check_input(task.input)
        except InputError as error:
            problems.append((task.id, error))
    if not problems:
        return
    task_id, first = problems[0]
    more_failures = (
        f" {counted(len(problems) - 1, 'other task')} cannot be run either." if problems[1:] else ""
    )
    raise InputError(
        f"Task {task_id!r} cannot be run: {first.message}{more_failures}",
        hint=first.hint or "Correct the task, or the settings of [agent] in ratchet.toml.",
    )
