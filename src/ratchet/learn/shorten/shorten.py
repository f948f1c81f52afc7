"""Shorten: leaves out parts of prompts as long as no score is lost, and asks the coach to merge.

What can go is found by running, as in delta debugging (Zeller & Hildebrandt 2002). All that may go
is left out at once; where that loses tasks, one half is left out, on those tasks alone: what is not
lost then needs something of the other half; and so on down to single parts. What could go by
itself is then left out together: two parts that say the same can each go, and not both. Where tasks
are lost that way, the part is found that lost them, and stays. What answers change by chance is
measured on the same prompts with a blank line more.

A shorter prompt that loses nothing on train is run on val, the shortest first. It is nominated if
it is no worse than the source by a standard error on all tasks that both ran, and has to be proved
to be not worse by a margin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from math import log2
from statistics import fmean

import msgspec

from ratchet.learn.algorithm import SPENT, Finding, SearchEnd, require_tasks
from ratchet.learn.budget import BudgetExhausted
from ratchet.learn.lab import Lab
from ratchet.learn.race import EVEN, RaceEntry
from ratchet.learn.shorten.losses import Chance, no_worse
from ratchet.learn.shorten.merging import merged
from ratchet.learn.shorten.parts import tokens_in
from ratchet.learn.shorten.saving import input_use, saving_sentence
from ratchet.learn.shorten.split_prompts import SplitPrompts
from ratchet.learn.work import Proposal, require_scores
from ratchet.types import InputError, PromptTemplate, Task

UNLIMITED = 2_000
"""Planned rollouts if their number is not limited."""

LEAST = 8
"""Train tasks, and val tasks, that are run at least, as far as there are any."""

LOOKS = 8
"""Rollouts of a task besides one for each halving: the source, chance, mending and the finalist."""

BATCH = 8
"""Groups of parts that are tried at once."""

FINALISTS = 3
"""Shorter prompts that are run on val at most, until one is no worse."""


class Shorten:
    """Leaves out and merges parts of prompts.

    Args:
        margin: How much lower a shorter prompt may score; by default the tightest margin that the
            test tasks can prove.
    """

    name = "shorten"
    needs_coach = None
    goal = "not worse"
    """What is to be proved of its candidates: they save tokens, and need not score higher."""

    def __init__(self, *, margin: float | None = None) -> None:
        if margin is not None and not 0.0 < margin < 1.0:
            raise InputError(f"Shorten(margin={margin!r}): a number between 0 and 1 is needed.")
        self.margin = margin

    async def learn(self, lab: Lab) -> Finding:
        """Shorten the prompts of the lab's baseline.

        Raises:
            InputError: There is no prompt, there are no tasks, or no rollout has a score.
            BudgetExhausted: The budget does not cover one shorter prompt; raised before anything is
                spent.
        """
        if not any(isinstance(resource, PromptTemplate) for resource in lab.targets.values()):
            raise InputError(
                "The agent has no prompt to shorten.",
                hint='Name one: SYSTEM = ratchet.prompt("system", "You are ...").',
            )
        require_tasks(lab)
        fewest = 2 * min(len(lab.train), LEAST) + 2 * min(len(lab.val), LEAST)
        if _left(lab) < fewest:
            raise BudgetExhausted(
                f"The budget does not cover one shorter prompt: {fewest} rollouts are needed at"
                f" least, and {_left(lab)} are left.",
                hint="Raise rollouts under [improve.budget]; a few hundred are usual.",
            )
        search = _Search(lab)
        if not await search.run_source():
            return search.nothing(
                "The agent scores 0 on every train task, so nothing tells what a part is good for."
            )
        await search.leave_out()
        await search.mend(search.train)
        await search.run_source_on_val()
        await search.mend([*search.train, *search.val])
        finalists = search.finalists()
        if lab.has_coach:
            finalists = await search.with_merged(finalists)
        return await search.choose(finalists)


class _Chunk(msgspec.Struct, frozen=True):
    """Parts that are left out together, and the tasks that they are tried on."""

    parts: tuple[int, ...]
    tasks: tuple[Task, ...]
    other: tuple[int, ...] = ()
    """The other half of what lost these tasks, which is looked at next."""


class _Search:
    """The state of one search."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._prompts = SplitPrompts(
            {
                name: resource
                for name, resource in lab.targets.items()
                if isinstance(resource, PromptTemplate)
            }
        )
        # What no task needs seems dead, so as many tasks are run as the budget allows.
        looks = log2(max(2, self._prompts.count)) + LOOKS
        count = max(LEAST, int(_left(lab) / looks))
        self.train = lab.shuffled("shorten/train", lab.train)[:count]
        self.val = lab.shuffled("shorten/val", lab.val)[:count]
        self._reserve = len(self.train) + 2 * len(self.val)
        """Rollouts of a finalist on all tasks, and of the source on val."""
        self._source = RaceEntry(0, lab.baseline)
        self._entries: dict[str, RaceEntry] = {}
        self._without: dict[tuple[frozenset[int], bool], RaceEntry | None] = {}
        """By the parts that are left out, and whether a blank line is more; None for no prompt."""
        self._kept_out: list[tuple[int, ...]] = []
        """Groups of parts that can go, the longest first."""
        self._chance = Chance()
        self._reported: set[int] = set()
        self._steps = 0
        self.ended = SearchEnd("idle", "every part that is left is needed")

    async def run_source(self) -> bool:
        """Run the source on the train tasks; whether there is a score that could be lost."""
        evaluations = await self._lab.evaluate(self._lab.baseline, self.train)
        require_scores(evaluations, "train")
        scores = self._source.add(evaluations)
        if not any(score > EVEN for score in scores.values()):
            return False
        await self._measure_chance()
        return True

    async def _measure_chance(self) -> None:
        """Run the same prompts with a blank line more, which says nothing else.

        Answers of a model change with any change of its prompt, also where it draws none of them.
        """
        if _left(self._lab) < len(self.train) + self._reserve:
            return
        again = await self._differences((), self.train, spaced=True)
        if again is None:
            return
        self._chance = Chance.of(
            [again[task] for task, score in self._source.scores.items() if score > EVEN]
        )

    async def leave_out(self) -> None:
        """Find the groups of parts that can go, each by itself."""
        parts = tuple(range(self._prompts.count))
        waiting = [_Chunk(parts, tuple(self.train))] if parts else []
        while waiting and self._may_continue():
            # First what may save most for a rollout: long parts that few tasks were lost without.
            waiting.sort(key=lambda chunk: -self._prompts.tokens(chunk.parts) / len(chunk.tasks))
            batch = self._affordable(waiting[:BATCH])
            if not batch:
                break
            results = await asyncio.gather(
                *(self._differences(chunk.parts, chunk.tasks) for chunk in batch)
            )
            waiting = waiting[len(batch) :]
            for chunk, differences in zip(batch, results, strict=True):
                if differences is None:
                    waiting.append(chunk)
                    continue
                self._report(chunk.parts)
                lost = tuple(task for task in chunk.tasks if differences[task.id] < -EVEN)
                if not self._chance.exceeded(differences.values()):
                    self._kept_out.append(chunk.parts)
                    lost = ()
                waiting += self._next(chunk.parts, lost)
                if chunk.other:
                    waiting += self._other(chunk, lost)
        if waiting:
            self.ended = SPENT
        self._kept_out.sort(key=lambda parts: (-self._prompts.tokens(parts), parts))

    def _next(self, parts: tuple[int, ...], lost: tuple[Task, ...]) -> list[_Chunk]:
        """What to try of parts without which tasks are lost: one half on these tasks."""
        if not lost or len(parts) == 1:
            return []
        half, other = self._prompts.halves(parts)
        return [_Chunk(half, lost, other)]

    def _other(self, chunk: _Chunk, lost: tuple[Task, ...]) -> list[_Chunk]:
        """What to try of the other half, after tasks were lost without this one.

        The tasks that were not, though they were without both, need something of the other half:
        it need not be tried as a whole.
        """
        ids = {task.id for task in lost}
        rest = tuple(task for task in chunk.tasks if task.id not in ids)
        if not rest:
            return [_Chunk(chunk.other, chunk.tasks)]
        if len(chunk.other) > 1 and self._chance.exceeded([-1.0] * len(rest) + [0.0] * len(lost)):
            return self._next(chunk.other, rest)
        return [_Chunk(chunk.other, rest)]

    async def run_source_on_val(self) -> None:
        """Run the source on the val tasks."""
        evaluations = await self._lab.evaluate(self._lab.baseline, self.val)
        require_scores(evaluations, "val")
        self._source.add(evaluations)
        self._reserve -= len(self.val)

    async def mend(self, tasks: Sequence[Task]) -> None:
        """Put back what cannot go together with the others without a loss of these tasks."""
        while self._kept_out and self._may_continue():
            lost = await self._lost_together(tasks)
            if lost is None:
                self.ended = SPENT
                return
            if not lost:
                return
            while lost:
                culprit = await self._culprit(lost)
                if culprit is None:
                    self.ended = SPENT
                    return
                parts = self._kept_out.pop(culprit)
                if len(parts) > 1:
                    self._kept_out += self._prompts.halves(parts)
                    self._kept_out.sort(key=lambda parts: (-self._prompts.tokens(parts), parts))
                lost = await self._lost(self._kept_out, lost) if self._kept_out else []

    async def _lost_together(self, tasks: Sequence[Task]) -> list[Task] | None:
        """Of the tasks, those that are lost without all groups, and again with a blank line more.

        What a second look at them loses by chance is no loss; None if the budget is spent.
        """
        lost = await self._lost(self._kept_out, tasks, at_all=True)
        if not lost:
            return lost
        again = await self._differences(_union(self._kept_out), lost, spaced=True)
        if again is None:
            return None
        if not self._chance.exceeded(again.values()):
            return []
        return [task for task in lost if again[task.id] < -EVEN]

    async def _lost(
        self, groups: Sequence[tuple[int, ...]], tasks: Sequence[Task], *, at_all: bool = False
    ) -> list[Task] | None:
        """The tasks that are lost without groups of parts; None if the budget is spent.

        Args:
            groups: The groups.
            tasks: The tasks that are looked at.
            at_all: Also if no more are lost than by chance.
        """
        differences = await self._differences(_union(groups), tasks)
        if differences is None:
            return None
        if not at_all and not self._chance.exceeded(differences.values()):
            return []
        return [task for task in tasks if differences[task.id] < -EVEN]

    async def _culprit(self, lost: Sequence[Task]) -> int | None:
        """The group whose leaving out, after the longer ones, loses tasks; None without budget."""
        low, high = 0, len(self._kept_out)
        while high - low > 1:
            middle = (low + high) // 2
            still = await self._lost(self._kept_out[:middle], lost)
            if still is None:
                return None
            low, high = (low, middle) if still else (middle, high)
        return high - 1

    def finalists(self) -> list[RaceEntry]:
        """The shorter prompts to be run on val, the shortest first.

        After the one without all that can go, those without the longest groups alone.
        """
        groups = self._kept_out
        counts = [len(groups), len(groups) // 2, 1]
        entries = [
            entry
            for count in counts
            if 0 < count <= len(groups) and (entry := self._entry(_union(groups[:count])))
        ]
        return list({entry.id: entry for entry in entries}.values())

    async def with_merged(self, finalists: list[RaceEntry]) -> list[RaceEntry]:
        """The finalists, with the coach's merged version of the shortest if it loses nothing."""
        lab = self._lab
        prompts = self._prompts_of(finalists[0] if finalists else self._source)
        name = max(prompts, key=lambda name: len(prompts[name].text))
        shorter = await merged(lab, prompts[name], "shorten/merge")
        if shorter is None:
            return finalists
        was, now = tokens_in(self._prompts.prompts[name].text), tokens_in(shorter.text)
        entry = self._entered(
            {**prompts, name: shorter},
            f"The coach merged what is left of {name!r}: about {now:,} tokens in place of {was:,}.",
        )
        if fault := await lab.check(entry.candidate):
            lab.note(f"The coach's merged version cannot be used: {fault}")
            return finalists
        differences = await self._run(entry, self.train)
        if differences is None or not no_worse(differences.values()):
            lab.note("The coach's merged version loses train tasks, and is left out.")
            return finalists
        return [entry, *finalists]

    async def choose(self, finalists: Sequence[RaceEntry]) -> Finding:
        """The shortest finalist that is no worse than the source on train and val."""
        self._reserve = 0
        best, tasks = self._source, [*self.train, *self.val]
        for entry in sorted(finalists, key=self._length)[:FINALISTS]:
            if await self._lab.check(entry.candidate):
                continue
            differences = await self._run(entry, tasks)
            if differences is None:
                self.ended = SPENT
            elif no_worse(differences.values()):
                best = entry
                break
        for entry in self._entries.values():
            self._judge(entry)
        sentence = await self._sentence(best)
        ids = [task.id for task in self.val]
        return Finding(
            best=best.candidate,
            baseline_val=fmean(self._source.scores[id] for id in ids),
            best_val=fmean(best.scores[id] for id in ids),
            proposals=len(self._entries),
            sentence=sentence,
            ended=self.ended.cause,
        )

    def nothing(self, sentence: str) -> Finding:
        """The source as it is, and why."""
        mean = self._source.mean()
        return Finding(
            best=self._lab.baseline,
            baseline_val=mean,
            best_val=mean,
            proposals=0,
            sentence=sentence,
            ended="idle",
        )

    async def _sentence(self, best: RaceEntry) -> str:
        if best is self._source:
            return f"No part of a prompt can go without a loss; {self.ended.why}."
        was, now = self._length(self._source), self._length(best)
        text = (
            f"The prompts are {(1 - now / was) * 100:.0f} % shorter: about {now:,} tokens in place"
            f" of {was:,}, by their characters; {self.ended.why}."
        )
        spans = [
            await asyncio.gather(
                *(self._lab.spans(entry.evaluations[task.id]) for task in self.val)
            )
            for entry in (self._source, best)
        ]
        return f"{text} {saving_sentence(*map(input_use, spans))}".strip()

    # Candidates and their scores.

    async def _differences(
        self, left_out: Iterable[int], tasks: Sequence[Task], *, spaced: bool = False
    ) -> dict[str, float] | None:
        """Scores without these parts minus the source's, by task id; None if the budget is spent.

        What fails the checks loses every task.

        Args:
            left_out: The parts.
            tasks: The tasks.
            spaced: With a blank line more, which says nothing else, and is not checked.
        """
        entry = self._entry(left_out, spaced=spaced)
        if entry is None or (not spaced and await self._lab.check(entry.candidate)):
            return {task.id: -1.0 for task in tasks}
        return await self._run(entry, tasks)

    async def _run(self, entry: RaceEntry, tasks: Sequence[Task]) -> dict[str, float] | None:
        new = [task for task in tasks if task.id not in entry.scores]
        if len(new) > self._left():
            return None
        if new:
            try:
                entry.add(await self._lab.evaluate(entry.candidate, new))
            except BudgetExhausted:
                return None
        return {task.id: entry.scores[task.id] - self._source.scores[task.id] for task in tasks}

    def _entry(self, left_out: Iterable[int], *, spaced: bool = False) -> RaceEntry | None:
        """The prompts without these parts; None if nothing is left of one."""
        key = (frozenset(left_out), spaced)
        if key not in self._without:
            self._without[key] = self._made(*key)
        return self._without[key]

    def _made(self, left_out: frozenset[int], spaced: bool) -> RaceEntry | None:
        changed = self._prompts.without(left_out, spaced=spaced)
        if changed is None:
            return None
        reason = "A blank line more, to see what changes by chance."
        if not spaced:
            reason = self._prompts.reason(left_out, changed)
        return self._entered(changed, reason)

    def _entered(self, changed: Mapping[str, PromptTemplate], reason: str) -> RaceEntry:
        candidate = self._lab.propose(changed, algorithm=Shorten.name, reason=reason)
        new = RaceEntry(len(self._entries) + 1, candidate, self._source)
        return self._entries.setdefault(candidate.id, new)

    def _report(self, left_out: Iterable[int]) -> None:
        if entry := self._entry(left_out):
            self._judge(entry)

    def _judge(self, entry: RaceEntry) -> None:
        """Report an entry's scores, once."""
        if not entry.scores or entry.number in self._reported:
            return
        self._reported.add(entry.number)
        self._lab.judged(
            Proposal(
                number=entry.number - 1,
                candidate_id=entry.id,
                value=entry.mean(),
                tasks=len(entry.scores),
                pruned=len(entry.scores) < len(self.train),
                best=self._source.mean(),
                rollouts=self._lab.spent.rollouts,
            )
        )

    def _length(self, entry: RaceEntry) -> int:
        """Estimated tokens of all prompts."""
        return sum(tokens_in(prompt.text) for prompt in self._prompts_of(entry).values())

    def _prompts_of(self, entry: RaceEntry) -> dict[str, PromptTemplate]:
        resources = {name: entry.candidate.resources[name] for name in self._prompts.prompts}
        return {name: r for name, r in resources.items() if isinstance(r, PromptTemplate)}

    # The budget.

    def _may_continue(self) -> bool:
        self._steps += 1
        return self._lab.may_continue(f"shorten/{self._steps:04d}")

    def _left(self) -> int:
        """Rollouts left for the search."""
        return _left(self._lab) - self._reserve

    def _affordable(self, level: Sequence[_Chunk]) -> list[_Chunk]:
        """The first chunks that the budget covers, with what mending and val take."""
        left = self._left() - len(self.train)
        affordable = []
        for chunk in level:
            left -= len(chunk.tasks)
            if left < 0:
                break
            affordable.append(chunk)
        return affordable


def _union(groups: Iterable[Iterable[int]]) -> list[int]:
    return sorted({part for group in groups for part in group})


def _left(lab: Lab) -> int:
    """Rollouts left."""
    if lab.budget.rollouts is None:
        return UNLIMITED - min(lab.spent.rollouts, UNLIMITED)
    return lab.budget.rollouts - lab.spent.rollouts
