"""Runs prompts without some of their parts, within a budget, and compares them with the source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ratchet.learn.budget import BudgetExhausted
from ratchet.learn.lab import Lab
from ratchet.learn.race import RaceEntry
from ratchet.learn.shorten.parts import tokens_in
from ratchet.learn.shorten.split_prompts import SplitPrompts
from ratchet.learn.work import Evaluation, Proposal
from ratchet.types import PromptTemplate, Task

UNLIMITED_ROLLOUTS = 2_000
"""Number of rollouts to plan with if the budget does not limit them."""


class Trials:
    """The source and the shorter prompts, with their scores.

    Args:
        lab: The lab.
        algorithm: Name of the algorithm that proposes them.
    """

    def __init__(self, lab: Lab, algorithm: str) -> None:
        self._lab = lab
        self._algorithm = algorithm
        self.prompts = SplitPrompts(
            {
                name: resource
                for name, resource in lab.targets.items()
                if isinstance(resource, PromptTemplate)
            }
        )
        self.source = RaceEntry(0, lab.baseline)
        self.reserve = 0
        """Number of rollouts reserved for later."""
        self._entries: dict[str, RaceEntry] = {}
        self._without: dict[tuple[frozenset[int], bool], RaceEntry | None] = {}
        """Keyed by the parts left out, and whether a blank line was added; None: no prompt is left.
        """
        self._judged: set[int] = set()

    @property
    def left(self) -> int:
        """Rollouts left."""
        return rollouts_left(self._lab) - self.reserve

    @property
    def count(self) -> int:
        """Number of shorter prompts that were made."""
        return len(self._entries)

    async def run_source(self, tasks: Sequence[Task]) -> list[Evaluation]:
        """Run the source on tasks."""
        evaluations = await self._lab.evaluate(self._lab.baseline, tasks)
        self.source.add(evaluations)
        return evaluations

    async def differences(
        self, left_out: Iterable[int], tasks: Sequence[Task], *, spaced: bool = False
    ) -> dict[str, float] | None:
        """Scores without these parts minus the source's, by task id; None if the budget is spent.

        What fails the checks loses every task.

        Args:
            left_out: The parts.
            tasks: The tasks; the source has run them.
            spaced: With a blank line more, which says nothing else, and is not checked.
        """
        entry = self.entry(left_out, spaced=spaced)
        if entry is None or (not spaced and await self._lab.check(entry.candidate)):
            return {task.id: -1.0 for task in tasks}
        return await self.run(entry, tasks)

    async def run(self, entry: RaceEntry, tasks: Sequence[Task]) -> dict[str, float] | None:
        """As `differences`, for an entry; tasks that it has run are not run again."""
        new = [task for task in tasks if task.id not in entry.scores]
        if len(new) > self.left:
            return None
        if new:
            try:
                entry.add(await self._lab.evaluate(entry.candidate, new))
            except BudgetExhausted:
                return None
        return {task.id: entry.scores[task.id] - self.source.scores[task.id] for task in tasks}

    def entry(self, left_out: Iterable[int], *, spaced: bool = False) -> RaceEntry | None:
        """The prompts without these parts; None if nothing remains of one."""
        key = (frozenset(left_out), spaced)
        if key not in self._without:
            self._without[key] = self._made(*key)
        return self._without[key]

    def entered(self, changed: Mapping[str, PromptTemplate], reason: str) -> RaceEntry:
        """The entry of changed prompts."""
        candidate = self._lab.propose(changed, algorithm=self._algorithm, reason=reason)
        new = RaceEntry(len(self._entries) + 1, candidate, self.source)
        return self._entries.setdefault(candidate.id, new)

    def prompts_of(self, entry: RaceEntry) -> dict[str, PromptTemplate]:
        """An entry's prompts, by name."""
        resources = {name: entry.candidate.resources[name] for name in self.prompts.prompts}
        return {name: r for name, r in resources.items() if isinstance(r, PromptTemplate)}

    def length(self, entry: RaceEntry) -> int:
        """Estimated tokens of all prompts."""
        return sum(tokens_in(prompt.text) for prompt in self.prompts_of(entry).values())

    def judge(self, train: int, left_out: Iterable[int] | None = None) -> None:
        """Report the scores of an entry, or of all that were not reported.

        Args:
            train: Number of train tasks; who ran fewer was given up.
            left_out: Parts of one entry.
        """
        entries = self._entries.values() if left_out is None else [self.entry(left_out)]
        for entry in entries:
            if entry is None or not entry.scores or entry.number in self._judged:
                continue
            self._judged.add(entry.number)
            self._lab.judged(
                Proposal(
                    number=entry.number - 1,
                    candidate_id=entry.id,
                    value=entry.mean(),
                    tasks=len(entry.scores),
                    pruned=len(entry.scores) < train,
                    best=self.source.mean(),
                    rollouts=self._lab.spent.rollouts,
                )
            )

    def _made(self, left_out: frozenset[int], spaced: bool) -> RaceEntry | None:
        changed = self.prompts.without(left_out, spaced=spaced)
        if changed is None:
            return None
        reason = "An extra blank line, to see how much scores vary by chance."
        if not spaced:
            reason = self.prompts.reason(left_out, changed)
        return self.entered(changed, reason)


def rollouts_left(lab: Lab) -> int:
    """Rollouts left of the lab's budget."""
    if lab.budget.rollouts is None:
        return UNLIMITED_ROLLOUTS - min(lab.spent.rollouts, UNLIMITED_ROLLOUTS)
    return lab.budget.rollouts - lab.spent.rollouts
