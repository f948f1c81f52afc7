"""The frozen sets that guard an experiment: chosen before its first pair, and journaled."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from ratchet.prove.frozen_margin import (
    affordable_sets,
    draws_of_one,
    fewest_draws,
    frozen_margin,
    most_noise,
)
from ratchet.prove.frozen_plan import FrozenGuardrail, FrozenPlan
from ratchet.store import Store
from ratchet.types import Experiment, FrozenSet, Task, content_hash
from ratchet.types.wording import counted


class FrozenGuards(msgspec.Struct, frozen=True, kw_only=True):
    """The frozen sets of one experiment, with their tasks as they were when they were chosen."""

    plan: FrozenPlan | None = None
    """None when no set guards it."""
    tasks: dict[str, tuple[Task, ...]] = {}
    """By id of the set."""
    sentences: tuple[str, ...] = ()
    """Which sets guard the experiment and which are left out, and why."""

    def task(self, set_id: str, task_id: str) -> Task:
        """A task of a set."""
        return next(task for task in self.tasks[set_id] if task.id == task_id)


def frozen_guards(
    experiment: Experiment,
    sets: Sequence[FrozenSet],
    store: Store,
    *,
    answered: bool,
    draws: int,
    planning: int,
) -> FrozenGuards:
    """The frozen sets of an experiment; asked again, they are the same.

    Args:
        experiment: The experiment.
        sets: The frozen sets of the project, in the order in which they are chosen.
        store: Its journal remembers the choice.
        answered: Whether the objective needs an expected answer.
        draws: Number of runs that the proof takes with each candidate: most draws of all sets.
        planning: How many times the tasks of the proof were planned. Tasks that are added to a
            proof that was undecided add draws, so the sets are chosen anew.
    """
    key = f"frozen/{experiment.id}/{planning}"
    stored = store.journal.get(experiment.run_id, key)
    if stored is None:
        seed = content_hash([experiment.id, planning])
        guards = choose_guards(
            sets, alpha=experiment.alpha, answered=answered, draws=draws, seed=seed
        )
        body = msgspec.to_builtins(guards)
        stored = store.journal.append(experiment.run_id, key, body, time.time())
    return msgspec.convert(stored, FrozenGuards)


def choose_guards(
    sets: Sequence[FrozenSet],
    *,
    alpha: float,
    answered: bool,
    draws: int,
    seed: str = "",
) -> FrozenGuards:
    """Choose the first sets, as many as `draws` can guard with a useful margin.

    Args:
        sets: The frozen sets, in the order in which they are chosen.
        alpha: Level of the experiment.
        answered: Whether the objective needs an expected answer.
        draws: Maximum number of draws of all sets together.
        seed: Determines the draws.
    """
    tasks = {frozen.id: _usable(frozen, answered) for frozen in sets}
    usable = [frozen for frozen in sets if tasks[frozen.id]]
    sentences = [
        f"Frozen set {frozen.title!r} is left out: none of its tasks has an expected answer, which"
        " the objective needs."
        for frozen in sets
        if not tasks[frozen.id] and frozen.tasks
    ]
    count = affordable_sets(len(usable), alpha=alpha, draws=draws)
    chosen, left_out = usable[:count], usable[count:]
    if not chosen:
        if left_out:
            sentences.append(_none(left_out, alpha, draws))
        return FrozenGuards(sentences=tuple(sentences))
    margin = frozen_margin(count, alpha=alpha, draws=draws)
    most = draws_of_one(count, margin, alpha=alpha, draws=draws)
    plan = FrozenPlan(
        sets=tuple(
            FrozenGuardrail(
                set_id=frozen.id,
                problem_id=frozen.problem_id,
                title=frozen.title,
                version=frozen.version,
                tasks=tuple(task.id for task in tasks[frozen.id]),
                margin=margin,
                draws=most,
                seed=content_hash([seed, frozen.id]),
            )
            for frozen in chosen
        ),
        draws=min(draws, count * most),
        noise=most_noise(margin),
    )
    return FrozenGuards(
        plan=plan,
        tasks={frozen.id: tasks[frozen.id] for frozen in chosen},
        sentences=(_chosen(chosen, left_out, plan), *sentences),
    )


def _usable(frozen: FrozenSet, answered: bool) -> tuple[Task, ...]:
    """The tasks that the objective can score."""
    return tuple(task for task in frozen.tasks if task.expected is not None or not answered)


def _chosen(chosen: Sequence[FrozenSet], left_out: Sequence[FrozenSet], plan: FrozenPlan) -> str:
    several = len(chosen) > 1
    text = (
        f"{counted(len(chosen), 'frozen set')} guard{'' if several else 's'} this proof:"
        f" {_titles(chosen)}"
    )
    if left_out:
        verb = "are" if len(left_out) > 1 else "is"
        text += (
            f"; {len(left_out)} {verb} left out, since {plan.draws} draws are too few for them:"
            f" {_titles(left_out)}"
        )
    return (
        f"{text}. If the pairs promote the candidate, up to {counted(plan.draws, 'draw')} of frozen"
        f" tasks have to rule out that its score drops by {plan.sets[0].margin:g} on"
        f" {'any of these sets' if several else 'this set'}. A candidate that fails half of a set's"
        f" tasks drops by that much if {100 * plan.noise:.0f} % of answers are wrong by chance."
    )


def _none(left_out: Sequence[FrozenSet], alpha: float, draws: int) -> str:
    return (
        f"No frozen set guards this proof ({_titles(left_out)}): it runs each candidate"
        f" {draws} times, and so many draws cannot rule out that half of a set's tasks fail."
        f" {fewest_draws(alpha=alpha)} would be enough for one set: add test tasks or repetitions."
    )


def _titles(sets: Sequence[FrozenSet]) -> str:
    return ", ".join(repr(frozen.title) for frozen in sets)


def planned_draws(sets: Sequence[FrozenSet], *, alpha: float, answered: bool, draws: int) -> int:
    """Maximum number of frozen-set draws in an experiment of that level."""
    plan = choose_guards(sets, alpha=alpha, answered=answered, draws=draws).plan
    return plan.draws if plan is not None else 0
