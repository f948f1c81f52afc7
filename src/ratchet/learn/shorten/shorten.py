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
from collections.abc import Iterable, Sequence
from math import log2
from statistics import fmean

import msgspec

from ratchet.learn.algorithm import SPENT, Finding, SearchEnd, require_tasks
from ratchet.learn.budget import too_few_rollouts
from ratchet.learn.lab import Lab
from ratchet.learn.race import SCORE_TOLERANCE, RaceEntry
from ratchet.learn.shorten.losses import Chance, no_worse
from ratchet.learn.shorten.merging import merged
from ratchet.learn.shorten.parts import tokens_in
from ratchet.learn.shorten.saving import input_use, saving_sentence
from ratchet.learn.shorten.trials import Trials, rollouts_left
from ratchet.learn.work import require_scores
from ratchet.types import InputError, PromptTemplate, Task

MIN_TASKS = 8
"""Minimum number of train tasks, and val tasks, that are run, as far as there are any."""

LOOKS = 8
"""Rollouts of a task in addition to one for each halving: the source, chance, repair and the
finalist."""

GROUPS_PER_BATCH = 8
"""Groups of parts that are tried at the same time."""

MAX_FINALISTS = 3
"""Maximum number of shorter prompts that are run on val, until one is no worse."""


class Shorten:
    """Leaves out and merges parts of prompts.

    Args:
        margin: How much lower a shorter prompt may score; by default the tightest margin that the
            test tasks can prove.
    """

    name = "shorten"
    needs_coach = None
    goal = "not worse"
    """Its candidates must prove that they save tokens; they need not score higher."""

    def __init__(self, *, margin: float | None = None) -> None:
        if margin is not None and not 0.0 < margin < 1.0:
            raise InputError(f"Shorten(margin={margin!r}): expected a number between 0 and 1.")
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
                hint='Declare one: SYSTEM = ratchet.prompt("system", "You are ...").',
            )
        require_tasks(lab)
        fewest = 2 * min(len(lab.train), MIN_TASKS) + 2 * min(len(lab.val), MIN_TASKS)
        if rollouts_left(lab) < fewest:
            raise too_few_rollouts(
                f"The budget does not cover one shorter prompt: at least {fewest} rollouts are "
                f"needed, and {rollouts_left(lab)} are left.",
            )
        search = _Search(lab)
        if not await search.run_source():
            return search.nothing(
                "The agent scores 0 on every train task, so nothing shows which parts are needed."
            )
        await search.leave_out()
        await search.mend(search.train)
        await search.run_source_on_val()
        await search.mend([*search.train, *search.val])
        finalists = search.finalists()
        if lab.coach.is_configured:
            finalists = await search.with_merged(finalists)
        return await search.choose(finalists)


class _Chunk(msgspec.Struct, frozen=True):
    """Parts that are left out together, and the tasks that they are tried on."""

    parts: tuple[int, ...]
    tasks: tuple[Task, ...]
    other: tuple[int, ...] = ()
    """The other half of the parts whose removal lost these tasks; it is tried next."""


class _Search:
    """The state of one search."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._trials = Trials(lab, Shorten.name)
        self._prompts = self._trials.prompts
        # What no task needs seems dead, so as many tasks are run as the budget allows.
        looks = log2(max(2, self._prompts.count)) + LOOKS
        count = max(MIN_TASKS, int(rollouts_left(lab) / looks))
        self.train = lab.shuffled("shorten/train", lab.train)[:count]
        self.val = lab.shuffled("shorten/val", lab.val)[:count]
        # Of a finalist on all tasks, and of the source on val.
        self._trials.reserve = len(self.train) + 2 * len(self.val)
        self._kept_out: list[tuple[int, ...]] = []
        """Groups of parts that can be left out, longest first."""
        self._chance = Chance()
        self._steps = 0
        self.ended = SearchEnd("idle", "every remaining part is needed")

    async def run_source(self) -> bool:
        """Run the source on the train tasks; returns whether there is any score to lose."""
        require_scores(await self._trials.run_source(self.train), "train")
        if not any(score > SCORE_TOLERANCE for score in self._trials.source.scores.values()):
            return False
        await self._measure_chance()
        return True

    async def _measure_chance(self) -> None:
        """Run the same prompts with an extra blank line, which changes no meaning.

        Answers of a model change with any change of its prompt, also where it draws none of them.
        """
        again = await self._trials.differences((), self.train, spaced=True)
        if again is None:
            return
        self._chance = Chance.of(
            [
                again[task]
                for task, score in self._trials.source.scores.items()
                if score > SCORE_TOLERANCE
            ]
        )

    async def leave_out(self) -> None:
        """Find the groups of parts that can be left out, each on its own."""
        parts = tuple(range(self._prompts.count))
        waiting = [_Chunk(parts, tuple(self.train))] if parts else []
        while waiting and self._may_continue():
            # First what may save most for a rollout: long parts that few tasks were lost without.
            waiting.sort(key=lambda chunk: -self._prompts.tokens(chunk.parts) / len(chunk.tasks))
            batch = self._affordable(waiting[:GROUPS_PER_BATCH])
            if not batch:
                break
            results = await asyncio.gather(
                *(self._trials.differences(chunk.parts, chunk.tasks) for chunk in batch)
            )
            waiting = waiting[len(batch) :]
            for chunk, differences in zip(batch, results, strict=True):
                if differences is None:
                    waiting.append(chunk)
                    continue
                self._trials.judge(len(self.train), chunk.parts)
                lost = tuple(
                    task for task in chunk.tasks if differences[task.id] < -SCORE_TOLERANCE
                )
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
        """The next trial for parts whose removal loses tasks: one half, on these tasks."""
        if not lost or len(parts) == 1:
            return []
        half, other = self._prompts.halves(parts)
        return [_Chunk(half, lost, other)]

    def _other(self, chunk: _Chunk, lost: tuple[Task, ...]) -> list[_Chunk]:
        """The next trial after the first half's removal lost tasks: the other half.

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
        require_scores(await self._trials.run_source(self.val), "val")
        self._trials.reserve -= len(self.val)

    async def mend(self, tasks: Sequence[Task]) -> None:
        """Put back the parts whose removal loses these tasks together with the others."""
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
        """The tasks that are lost without all groups, and lost again with an extra blank line.

        Tasks that the second try may lose by chance do not count. None if the budget is spent.
        """
        lost = await self._lost(self._kept_out, tasks, at_all=True)
        if not lost:
            return lost
        again = await self._trials.differences(_union(self._kept_out), lost, spaced=True)
        if again is None:
            return None
        if not self._chance.exceeded(again.values()):
            return []
        return [task for task in lost if again[task.id] < -SCORE_TOLERANCE]

    async def _lost(
        self, groups: Sequence[tuple[int, ...]], tasks: Sequence[Task], *, at_all: bool = False
    ) -> list[Task] | None:
        """The tasks lost when groups of parts are removed; None if the budget is spent.

        Args:
            groups: The groups.
            tasks: The tasks that are looked at.
            at_all: Also if no more are lost than by chance.
        """
        differences = await self._trials.differences(_union(groups), tasks)
        if differences is None:
            return None
        if not at_all and not self._chance.exceeded(differences.values()):
            return []
        return [task for task in tasks if differences[task.id] < -SCORE_TOLERANCE]

    async def _culprit(self, lost: Sequence[Task]) -> int | None:
        """The group whose removal, after the longer ones, loses tasks; None without budget."""
        low, high = 0, len(self._kept_out)
        while high - low > 1:
            middle = (low + high) // 2
            still = await self._lost(self._kept_out[:middle], lost)
            if still is None:
                return None
            low, high = (low, middle) if still else (middle, high)
        return high - 1

    def finalists(self) -> list[RaceEntry]:
        """The shorter prompts to run on val, shortest first.

        After the one without all that can go, those without the longest groups alone.
        """
        groups = self._kept_out
        counts = [len(groups), len(groups) // 2, 1]
        entries = [
            entry
            for count in counts
            if 0 < count <= len(groups) and (entry := self._trials.entry(_union(groups[:count])))
        ]
        return list({entry.id: entry for entry in entries}.values())

    async def with_merged(self, finalists: list[RaceEntry]) -> list[RaceEntry]:
        """The finalists, with the coach's merged version of the shortest if it loses nothing."""
        lab = self._lab
        prompts = self._trials.prompts_of(finalists[0] if finalists else self._trials.source)
        name = max(prompts, key=lambda name: len(prompts[name].text))
        shorter = await merged(lab, prompts[name], "shorten/merge")
        if shorter is None:
            return finalists
        was, now = tokens_in(self._prompts.prompts[name].text), tokens_in(shorter.text)
        entry = self._trials.entered(
            {**prompts, name: shorter},
            f"The coach merged what is left of {name!r}: about {now:,} tokens instead of {was:,}.",
        )
        if fault := await lab.check(entry.candidate):
            lab.note(f"The coach's merged version cannot be used: {fault}")
            return finalists
        differences = await self._trials.run(entry, self.train)
        if differences is None or not no_worse(differences.values()):
            lab.note("The coach's merged version loses train tasks, so it is not used.")
            return finalists
        return [entry, *finalists]

    async def choose(self, finalists: Sequence[RaceEntry]) -> Finding:
        """The shortest finalist that is no worse than the source on train and val."""
        self._trials.reserve = 0
        best, tasks = self._trials.source, [*self.train, *self.val]
        for entry in sorted(finalists, key=self._trials.length)[:MAX_FINALISTS]:
            if await self._lab.check(entry.candidate):
                continue
            differences = await self._trials.run(entry, tasks)
            if differences is None:
                self.ended = SPENT
            elif no_worse(differences.values()):
                best = entry
                break
        self._trials.judge(len(self.train))
        sentence = await self._sentence(best)
        ids = [task.id for task in self.val]
        return Finding(
            best=best.candidate,
            baseline_val=fmean(self._trials.source.scores[id] for id in ids),
            best_val=fmean(best.scores[id] for id in ids),
            proposals=self._trials.count,
            sentence=sentence,
            ended=self.ended.cause,
        )

    def nothing(self, sentence: str) -> Finding:
        """The source unchanged, and why."""
        mean = self._trials.source.mean()
        return Finding(
            best=self._lab.baseline,
            baseline_val=mean,
            best_val=mean,
            proposals=0,
            sentence=sentence,
            ended="idle",
        )

    async def _sentence(self, best: RaceEntry) -> str:
        if best is self._trials.source:
            return f"No part of a prompt can be left out without a loss; {self.ended.why}."
        was, now = self._trials.length(self._trials.source), self._trials.length(best)
        text = (
            f"The prompts are {(1 - now / was) * 100:.0f} % shorter: about {now:,} tokens instead "
            f"of {was:,}, estimated from their length; {self.ended.why}."
        )
        spans = [
            await asyncio.gather(
                *(self._lab.spans(entry.evaluations[task.id]) for task in self.val)
            )
            for entry in (self._trials.source, best)
        ]
        return f"{text} {saving_sentence(*map(input_use, spans))}".strip()

    # The budget.

    def _may_continue(self) -> bool:
        self._steps += 1
        return self._lab.may_continue(f"shorten/{self._steps:04d}")

    def _affordable(self, level: Sequence[_Chunk]) -> list[_Chunk]:
        """The first chunks that the budget covers, including repair and val."""
        left = self._trials.left - len(self.train)
        affordable = []
        for chunk in level:
            left -= len(chunk.tasks)
            if left < 0:
                break
            affordable.append(chunk)
        return affordable


def _union(groups: Iterable[Iterable[int]]) -> list[int]:
    return sorted({part for group in groups for part in group})
