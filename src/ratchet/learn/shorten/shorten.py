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
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import fsum, log2, sqrt
from statistics import fmean

import msgspec

from ratchet.learn.algorithm import SPENT, Finding, SearchEnd, require_tasks
from ratchet.learn.budget import BudgetExhausted
from ratchet.learn.lab import Lab
from ratchet.learn.race import EVEN, RaceEntry
from ratchet.learn.shorten.merging import merged
from ratchet.learn.shorten.parts import PromptPart, joined, split_prompt, tokens_in
from ratchet.learn.shorten.saving import input_use, saving_sentence
from ratchet.learn.work import Proposal, require_scores
from ratchet.stats.gain import may_gain
from ratchet.types import InputError, PromptTemplate, Task
from ratchet.types.wording import counted

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
        self._prompts = {
            name: resource
            for name, resource in lab.targets.items()
            if isinstance(resource, PromptTemplate)
        }
        self._split = {name: split_prompt(prompt) for name, prompt in self._prompts.items()}
        self._parts: list[tuple[str, int, PromptPart]] = [
            (name, number, part)
            for name, parts in self._split.items()
            for number, part in enumerate(parts)
            if not part.fixed
        ]
        """Those that may go: their prompts and their numbers in them."""
        # What no task needs seems dead, so as many tasks are run as the budget allows.
        looks = log2(max(2, len(self._parts))) + LOOKS
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
        self._chance = self._chance_square = 0.0
        """What the source loses by chance on a task that it scored on: mean and mean square."""
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
        losses = [
            max(0.0, -again[task]) for task, score in self._source.scores.items() if score > EVEN
        ]
        if losses:
            self._chance = fmean(losses)
            self._chance_square = fmean(loss * loss for loss in losses)

    async def leave_out(self) -> None:
        """Find the groups of parts that can go, each by itself."""
        waiting = [_Chunk(tuple(range(len(self._parts))), tuple(self.train))] * bool(self._parts)
        while waiting and self._may_continue():
            # First what may save most for a rollout: long parts that few tasks were lost without.
            waiting.sort(key=lambda chunk: -self._tokens(chunk.parts) / len(chunk.tasks))
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
                if not self._loses(differences.values()):
                    self._kept_out.append(chunk.parts)
                    lost = ()
                waiting += self._next(chunk.parts, lost)
                if chunk.other:
                    waiting += self._other(chunk, lost)
        if waiting:
            self.ended = SPENT
        self._kept_out.sort(key=lambda parts: (-self._tokens(parts), parts))

    def _next(self, parts: tuple[int, ...], lost: tuple[Task, ...]) -> list[_Chunk]:
        """What to try of parts without which tasks are lost: one half on these tasks."""
        if not lost or len(parts) == 1:
            return []
        half, other = self._halves(parts)
        return [_Chunk(half, lost, other)]

    def _other(self, chunk: _Chunk, lost: tuple[Task, ...]) -> list[_Chunk]:
        """What to try of the other half, after tasks were lost without this one.

        The tasks that were not, though they were without both, need something of the other half:
        it need not be tried as a whole.
        """
        rest = tuple(task for task in chunk.tasks if task not in lost)
        if not rest:
            return [_Chunk(chunk.other, chunk.tasks)]
        if len(chunk.other) > 1 and self._loses([-1.0] * len(rest) + [0.0] * len(lost)):
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
                    self._kept_out += self._halves(parts)
                    self._kept_out.sort(key=lambda parts: (-self._tokens(parts), parts))
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
        if not self._loses(again.values()):
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
        if not at_all and not self._loses(differences.values()):
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
        start = finalists[0].candidate if finalists else lab.baseline
        texts = {name: start.resources[name] for name in self._prompts}
        prompts = {name: t for name, t in texts.items() if isinstance(t, PromptTemplate)}
        name = max(prompts, key=lambda name: len(prompts[name].text))
        shorter = await merged(lab, prompts[name], "shorten/merge")
        if shorter is None:
            return finalists
        candidate = lab.propose(
            {**prompts, name: shorter},
            algorithm=Shorten.name,
            reason=f"The coach merged what is left of {name!r}: {self._shorter_by(shorter, name)}.",
        )
        if fault := await lab.check(candidate):
            lab.note(f"The coach's merged version cannot be used: {fault}")
            return finalists
        entry = self._entries.setdefault(
            candidate.id, RaceEntry(len(self._entries) + 1, candidate, self._source)
        )
        differences = await self._run(entry, self.train)
        if differences is None or not _no_worse(differences.values()):
            lab.note("The coach's merged version loses train tasks, and is left out.")
            return finalists
        return [entry, *finalists]

    async def choose(self, finalists: Sequence[RaceEntry]) -> Finding:
        """The shortest finalist that is no worse than the source on train and val."""
        self._reserve = 0
        best, tasks = self._source, [*self.train, *self.val]
        for entry in sorted(finalists, key=self._length)[:FINALISTS]:
            differences = await self._run(entry, tasks)
            if differences is None:
                self.ended = SPENT
            elif _no_worse(differences.values()):
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

    def _loses(self, differences: Collection[float]) -> bool:
        """Whether more is lost than by chance, give or take its standard deviation."""
        lost = fsum(max(0.0, -difference) for difference in differences)
        count = len(differences)
        return lost > count * self._chance + sqrt(count * self._chance_square) + EVEN

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
        gone: dict[str, set[int]] = {name: set() for name in self._prompts if spaced}
        for part in left_out:
            name, number, _ = self._parts[part]
            gone.setdefault(name, set()).add(number)
        changed = {}
        for name, numbers in gone.items():
            parts = self._split[name]
            text = joined(_spaced(parts) if spaced else parts, numbers)
            if not text.strip():
                return None
            try:
                changed[name] = PromptTemplate(text, self._prompts[name].engine)
            except InputError:
                return None
        reason = "A blank line more, to see what changes by chance."
        if not spaced:
            reason = self._reason(left_out, changed)
        candidate = self._lab.propose(changed, algorithm=Shorten.name, reason=reason)
        return self._entries.setdefault(
            candidate.id, RaceEntry(len(self._entries) + 1, candidate, self._source)
        )

    def _reason(self, parts: Collection[int], changed: Mapping[str, PromptTemplate]) -> str:
        was = sum(tokens_in(self._prompts[name].text) for name in changed)
        now = sum(tokens_in(prompt.text) for prompt in changed.values())
        names = ", ".join(map(repr, sorted(changed)))
        verb = "is" if len(parts) == 1 else "are"
        return (
            f"{len(parts)} of {counted(len(self._parts), 'part')} of {names} {verb} left out: about"
            f" {now:,} tokens in place of {was:,}."
        )

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

    # Sizes.

    def _tokens(self, parts: Iterable[int]) -> int:
        return sum(self._parts[part][2].tokens for part in parts)

    def _length(self, entry: RaceEntry) -> int:
        """Estimated tokens of all prompts."""
        resources = entry.candidate.resources
        return sum(
            tokens_in(resource.text)
            for name in self._prompts
            if isinstance(resource := resources[name], PromptTemplate)
        )

    def _shorter_by(self, shorter: PromptTemplate, name: str) -> str:
        was, now = tokens_in(self._prompts[name].text), tokens_in(shorter.text)
        return f"about {now:,} tokens in place of {was:,}"

    def _halves(self, parts: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Two groups of about equal length, cut where the text is, too, as far as it is."""
        total, passed = self._tokens(parts), 0
        cuts: list[tuple[tuple[int, float], int]] = []
        for count in range(1, len(parts)):
            part = self._parts[parts[count - 1]][2]
            passed += part.tokens
            aside = abs(passed / total - 0.5)
            strength = min(part.after.count("\n"), 2) if aside <= CENTRAL else -1
            cuts.append(((-strength, aside), count))
        _, cut = min(cuts)
        return [parts[:cut], parts[cut:]]

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


CENTRAL = 0.2
"""How far from its middle, as a share, a group is cut at the end of a paragraph."""


def _no_worse(differences: Iterable[float]) -> bool:
    """Whether a candidate is not below the source by a standard error.

    One task that is lost where all others are equal is a loss of exactly that, and counts.
    """
    values = [0.0 if abs(difference) <= EVEN else difference for difference in differences]
    return not any(values) or may_gain([difference - EVEN for difference in values])


def _spaced(parts: Sequence[PromptPart]) -> list[PromptPart]:
    """A prompt with one more blank line after its first paragraph, or else at its end."""
    first = next((n for n, part in enumerate(parts[:-1]) if "\n" in part.after), len(parts) - 1)
    widened = parts[first]._replace(after=parts[first].after + "\n")
    return [*parts[:first], widened, *parts[first + 1 :]]


def _union(groups: Iterable[Iterable[int]]) -> list[int]:
    return sorted({part for group in groups for part in group})


def _left(lab: Lab) -> int:
    """Rollouts left."""
    if lab.budget.rollouts is None:
        return UNLIMITED - min(lab.spent.rollouts, UNLIMITED)
    return lab.budget.rollouts - lab.spent.rollouts
