"""Checks the inputs of tasks before anything runs: settings of [agent] may name their fields."""

from __future__ import annotations

from collections.abc import Sequence

from ratchet.run.program import AnyAgent, ProgramAgent
from ratchet.types import InputError, Task
from ratchet.worker.placeholders import has_placeholders


def same_for_all(agent: AnyAgent, tasks: Sequence[Task]) -> str:
    """A sentence where the agent is given nothing of its tasks; empty where it is, or of one task.

    Args:
        agent: The agent.
        tasks: Its tasks.
    """
    if isinstance(agent, ProgramAgent):
        takes_input = agent.spec.handover.takes_input
    else:
        arguments = agent.spec.arguments
        takes_input = arguments is None or has_placeholders([arguments, agent.spec.construct])
    if takes_input or len(tasks) < 2:
        return ""
    return (
        f"All {len(tasks)} tasks run the same: nothing in [agent] has a place for their input. Let"
        " the agent take it, and write {input} there; or record it anew: ratchet init --undo, then"
        " ratchet init."
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
    more_failures = f" Nor can {len(problems) - 1} of the others." if problems[1:] else ""
    raise InputError(
        f"Task {task_id!r} cannot be run: {first.message}{more_failures}",
        hint=first.hint or "Correct the task, or the settings of [agent] in ratchet.toml.",
    )
