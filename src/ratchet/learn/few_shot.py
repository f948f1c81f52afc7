"""FewShot: adds examples of train tasks to a prompt, validated on val.

Demonstrations come from successful rollouts, as in DSPy's bootstrapping (Khattab et al. 2023), so
they show the agent's own behaviour at its best. A prompt that is one of several in a rollout gets
the model calls that sent it. Where the agent failed, the task's expected answer is shown instead,
if the objective gives it full marks: a weak model may answer no task in the right form before it
has seen one. A race finds the best set: sets of several sizes run the same tasks, and the better
half of those that may still be the best runs as many further tasks (sequential halving:
Karnin et al. 2013). A set is never evaluated on a task that it contains.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import msgspec

from ratchet.bind.recognise import shape_of
from ratchet.learn.algorithm import SPENT, Finding, SearchEnd, require_tasks
from ratchet.learn.attribution import sent_prompt, step_of, uses
from ratchet.learn.budget import BudgetExhausted, too_few_rollouts
from ratchet.learn.demonstrations import (
    CHARACTERS_A_TOKEN,
    Demonstration,
    covering,
    demonstration,
    labelled,
    likeness,
    step_demonstration,
    vectors,
    with_section,
)
from ratchet.learn.lab import Lab
from ratchet.learn.length import longest
from ratchet.learn.race import Race, RaceEntry, RaceResult, next_part
from ratchet.learn.work import Evaluation, Proposal, require_scores, scores_of
from ratchet.observe.step_text import text_of
from ratchet.stats.gain import is_clear
from ratchet.types import Candidate, InputError, PromptTemplate, Task
from ratchet.types.wording import counted

MIN_POOL = 2
"""Minimum number of successful rollouts to select from."""

UNLIMITED_ROLLOUTS = 400
"""Number of rollouts to plan with if the budget does not limit them."""

MAX_FINALISTS = 2
"""Maximum number of sets compared with the source on val."""

ROLLOUTS_EXAMINED = 8
"""Rollouts whose traces show which prompt is used most, and which placeholder holds the task."""

MIN_TASKS = 4
"""Minimum number of train tasks, and val tasks, that a set runs."""

FIRST_PART = 8
"""Train tasks that each set runs first."""

FRAGMENT_RATIO = 4
"""An output this many times longer than the expected answer may merely contain it."""

GOOD = 0.999
"""Minimum score of a demonstration; if fewer than two reach it, the better half is shown."""


class FewShot:
    """Adds demonstrations to a prompt.

    Args:
        max_demonstrations: Maximum number of demonstrations in a set.
        max_tokens: Approximate maximum tokens of a set.
        sets: Number of sets in the race.
        val_batch_size: Number of val tasks planned for the final comparison; more are run if the
            budget allows.
    """

    name = "few_shot"
    needs_coach = False

    def __init__(
        self,
        *,
        max_demonstrations: int = 8,
        max_tokens: int = 2_000,
        sets: int = 8,
        val_batch_size: int = 16,
    ) -> None:
        for name, value in {
            "max_demonstrations": max_demonstrations,
            "max_tokens": max_tokens,
            "sets": sets,
            "val_batch_size": val_batch_size,
        }.items():
            if type(value) is not int or value < 1:
                raise InputError(f"FewShot({name}={value!r}): expected a positive whole number.")
        self._most = max_demonstrations
        self._tokens = max_tokens
        self._sets = sets
        self._val = val_batch_size

    async def learn(self, lab: Lab) -> Finding:
        """Find demonstrations for a prompt of the lab's baseline.

        Raises:
            InputError: There is no prompt, there are no tasks, or no rollout has a score.
            BudgetExhausted: The budget does not cover one set; raised before anything is spent.
        """
        prompts = self._prompts(lab)
        require_tasks(lab)
        left = _left(lab)
        fewest = 2 * min(len(lab.train), MIN_TASKS) + 2 * min(len(lab.val), MIN_TASKS)
        if left < fewest:
            raise too_few_rollouts(
                f"The budget does not cover one set of demonstrations: at least {fewest} rollouts "
                f"are needed, and {left} are left.",
            )
        train = lab.shuffled("few_shot/train", lab.train)
        val = lab.shuffled("few_shot/val", lab.val)
        source = RaceEntry(0, lab.baseline)
        val_count = min(len(val), self._val, max(MIN_TASKS, left // 10))
        size = min(len(train), max(MIN_TASKS, min((left - 2 * val_count) // 2, 60)))
        source.add(await lab.evaluate(lab.baseline, train[:size]))
        require_scores(source.evaluations.values(), "train")
        target = await self._target(lab, prompts, source)
        task_slot = await _task_slot(lab, target, source)
        race = _Race(lab, source, train[:size], target, task_slot, reserve=val_count * 3)
        steps = await self._steps(lab, target, source, task_slot)
        answering = all(
            demonstration(e).output == steps[e.task.id].output
            for e in source.evaluations.values()
            if e.task.id in steps
        )
        expected, fragments = await self._labelled(lab, source, steps) if answering else ([], False)
        room = min(self._tokens, _room_in(lab, target))
        sets = self._choose_sets(lab, source, train, expected, steps, room)
        if not sets:
            why = "that takes an answer of the agent that scores well, or an expected answer"
            if not answering:
                why = "too few answers score well, and calls with other prompts give the answer"
            elif fragments:
                why = "too few answers score well, and the expected ones are only parts of answers"
            race.ended = SearchEnd(
                "idle",
                f"of {counted(size, 'train task')}, fewer than {MIN_POOL} can be shown as examples:"
                f" {why}",
            )
        await race.run(sets)
        return await self._finish(lab, race, val)

    def _prompts(self, lab: Lab) -> list[str]:
        names = [n for n, r in lab.targets.items() if isinstance(r, PromptTemplate)]
        if not names:
            raise InputError(
                "The agent has no prompt to put demonstrations in.",
                hint='Declare one: SYSTEM = ratchet.prompt("system", "You are ...").',
            )
        return names

    async def _target(self, lab: Lab, prompts: Sequence[str], source: RaceEntry) -> str:
        """The prompt used most in the traces; the first of several."""
        if len(prompts) == 1:
            return prompts[0]
        looked = list(source.evaluations.values())[:ROLLOUTS_EXAMINED]
        traces = await asyncio.gather(*(lab.spans(e) for e in looked))
        usages = [uses(lab.baseline.resources, spans) for spans in traces]
        counts = {name: sum(usage[name].used for usage in usages) for name in prompts}
        return max(prompts, key=lambda name: (counts[name], -prompts.index(name)))

    async def _steps(
        self, lab: Lab, target: str, source: RaceEntry, task_slot: str
    ) -> dict[str, Demonstration]:
        """What was asked and said with the target, by task, if rollouts also send other prompts."""
        template = lab.baseline.resources[target]
        assert isinstance(template, PromptTemplate)
        succeeded = [e for e in source.evaluations.values() if e.rollout.status == "succeeded"]
        traces = await asyncio.gather(*(lab.spans(e) for e in succeeded))
        return {
            e.task.id: step_demonstration(e.task.id, template, call, task_slot)
            for e, spans in zip(succeeded, traces, strict=True)
            if (call := step_of(target, template, spans, e.task.input))
        }

    async def _labelled(
        self, lab: Lab, source: RaceEntry, steps: Mapping[str, Demonstration]
    ) -> tuple[list[Demonstration], bool]:
        """Failed tasks with their expected answers, if the objective gives those full marks; and
        whether some were left out, as they are only parts of answers.

        What was asked is that of the step which answers the task, if rollouts have several.
        """
        failed = [
            e for e in source.evaluations.values() if e.task.expected is not None and e.worth < GOOD
        ]
        good = [
            e
            for e in failed
            if not steps or e.task.id in steps
            if await self._is_good(lab, e.task, e.task.expected)
        ]
        whole = [e for e in good if not await self._is_fragment(lab, e)]
        demonstrations = [
            msgspec.structs.replace(labelled(e.task), input=steps[e.task.id].input)
            if steps
            else labelled(e.task)
            for e in whole
        ]
        return demonstrations, len(whole) < len(good)

    async def _is_fragment(self, lab: Lab, evaluation: Evaluation) -> bool:
        """Whether an expected answer is only what a much longer answer must contain: the agent's
        own gets full marks once that is added to it."""
        expected, output = text_of(evaluation.task.expected), evaluation.rollout.output
        if not isinstance(output, str) or len(output) < FRAGMENT_RATIO * len(expected):
            return False
        return await self._is_good(lab, evaluation.task, f"{output}\n{expected}")

    async def _is_good(self, lab: Lab, task: Task, output: Any) -> bool:
        value = await lab.rate(task, output)
        return value is not None and value >= GOOD

    def _choose_sets(
        self,
        lab: Lab,
        source: RaceEntry,
        train: Sequence[Task],
        expected: Sequence[Demonstration],
        steps: Mapping[str, Demonstration],
        room: int,
    ) -> list[list[Demonstration]]:
        """Sets of several sizes, from successful rollouts or their steps, and expected answers."""
        pool = self._pool(source, len(expected))
        every = [*(steps.get(e.task.id) or demonstration(e) for e in pool), *expected]
        public = [d for d in every if lab.is_public(d.input) and lab.is_public(d.output)]
        if len(public) < len(every):
            lab.note(
                f"{len(every) - len(public)} of {len(every)} examples are not put into a prompt: "
                "redaction finds secrets or personal data in them. List values that are allowed "
                "there in allow under [redaction]."
            )
        demos = [d for d in public if d.input and d.output and d.within(room)]
        if len(demos) < MIN_POOL:
            return []
        space = vectors([*(d.input for d in demos), *(text_of(t.input) for t in train)])
        similar = [[likeness(demo, t) for t in space[len(demos) :]] for demo in space[: len(demos)]]
        # Examples should help with the tasks that the source fails.
        solved = source.scores.keys() - set(source.failing())
        weights = [1.0 if t.id in solved else 2.0 for t in train]
        sizes = [s for s in (4, 8, 2, 1, 6, 3) if s <= self._most] or [self._most]
        sizes = [s for s in sizes if s <= len(demos)] or [len(demos)]
        sets: list[list[Demonstration]] = []
        for number in range(4 * self._sets):
            size = sizes[number % len(sizes)]
            # What fits alone is whole; of a longer one its share is shown.
            shown = [d if d.tokens <= room else d.within(room // size) for d in demos]
            tokens = [d.tokens if d else room + 1 for d in shown]
            first = number < len(sizes)
            rng = None if first else lab.rng
            chosen = covering(similar, weights, tokens, count=size, room=room, rng=rng, pool=0.4)
            ids = {demos[n].task_id for n in chosen}
            if chosen and ids not in [{d.task_id for d in earlier} for earlier in sets]:
                # The most relevant example comes last, next to the task.
                sets.append([d for n in reversed(chosen) if (d := shown[n])])
            if len(sets) == self._sets:
                break
        return sets

    def _pool(self, source: RaceEntry, expected_count: int) -> list[Evaluation]:
        succeeded = [e for e in source.evaluations.values() if e.rollout.status == "succeeded"]
        good = [e for e in succeeded if e.worth >= GOOD]
        if len(good) + expected_count >= MIN_POOL:
            return good
        values = sorted(e.worth for e in succeeded)
        if not values or values[-1] <= 0:
            return []
        middle = values[len(values) // 2]
        return [e for e in succeeded if e.worth > max(0, middle)]

    async def _finish(self, lab: Lab, race: _Race, val: Sequence[Task]) -> Finding:
        finalists = race.finalists()
        reach = max(_left(lab) // (len(finalists) + 1), 0)
        tasks = val[: max(1, reach)]
        judged = await asyncio.gather(
            *(lab.evaluate(c.candidate, tasks) for c in (race.source, *finalists)),
            return_exceptions=True,
        )
        scores: dict[str, dict[str, float]] = {}
        for entry, evaluations in zip((race.source, *finalists), judged, strict=True):
            if isinstance(evaluations, BudgetExhausted):
                continue
            if isinstance(evaluations, BaseException):
                raise evaluations
            if entry is race.source:
                require_scores(evaluations, "val")
            scores[entry.id] = scores_of(evaluations)
        choice = race.choose(race.source, finalists, scores)
        if choice.entry is not race.source and not is_clear(race.differences(choice.entry, scores)):
            race.ended = SearchEnd(
                "idle", "the best set gains less than its standard error, and would cost tokens"
            )
            mean = fmean(scores[race.source.id].values())
            choice = RaceResult(race.source, mean, mean)
        return Finding(
            best=choice.entry.candidate,
            baseline_val=choice.first_val,
            best_val=choice.best_val,
            proposals=len(race.entered),
            sentence=race.sentence(),
            ended=race.ended.cause,
            tied=race.tied() if choice.entry is race.source else None,
        )


class _Race(Race[RaceEntry]):
    """Races sets of demonstrations against the source on the same tasks."""

    def __init__(
        self,
        lab: Lab,
        source: RaceEntry,
        tasks: Sequence[Task],
        target: str,
        task_slot: str,
        *,
        reserve: int,
    ) -> None:
        super().__init__()
        self.add(source, list(source.evaluations.values()))
        self._lab = lab
        self.source = source
        self._tasks = list(tasks)
        self._target = target
        self._task_slot = task_slot
        self._reserve = reserve
        self._shown: dict[int, set[str]] = {}
        """Ids of the tasks that each set contains."""
        self.entered: list[RaceEntry] = []
        self.ended = SearchEnd("idle", "the best sets were compared on val")

    async def run(self, sets: Sequence[Sequence[Demonstration]]) -> None:
        """Run the sets: fewer on more tasks in each round."""
        racing = [c for n, demos in enumerate(sets, 1) if (c := await self._entry(n, demos))]
        self.entered = list(racing)
        position, step = 0, 0
        while racing and self._lab.may_continue(f"few_shot/{step:03d}"):
            step += 1
            count = next_part(position, FIRST_PART, len(self._tasks))
            able = max(0, _left(self._lab) - self._reserve) // max(1, count)
            if not able:
                self.ended = SPENT
                break
            racing = racing[:able]
            tasks = self._tasks[position : position + count]
            judged = await asyncio.gather(
                *(self._evaluate(c, tasks) for c in racing), return_exceptions=True
            )
            if any(isinstance(outcome, BudgetExhausted) for outcome in judged):
                self.ended = SPENT
                break
            # Added in the order of the sets: the estimate depends on the order a little.
            for entry, evaluations in zip(racing, judged, strict=True):
                if isinstance(evaluations, BaseException):
                    raise evaluations
                self.add(entry, evaluations)
            position += count
            if not any(value for c in (self.source, *racing) for value in c.scores.values()):
                self.ended = SearchEnd(
                    "idle", f"no set scored above 0 on {counted(position, 'train task')}"
                )
                for entry in racing:
                    self._report(entry, pruned=True)
                break
            complete = position == len(self._tasks)
            ranked = self._ranked(racing)
            # At most half of them: the next part is as large as all before.
            keep = ranked[: max(1, len(racing) // 2)]
            for entry in racing:
                if entry not in keep or complete:
                    self._report(entry, pruned=not complete)
            racing = [] if complete else keep

    def finalists(self) -> list[RaceEntry]:
        """The sets estimated to beat the source, best first."""
        threshold = self.standing(self.source).mean
        ranked = self._ranked(self.entered)
        return [entry for entry in ranked if self.standing(entry).mean > threshold][:MAX_FINALISTS]

    def differences(self, entry: RaceEntry, val: Mapping[str, Mapping[str, float]]) -> list[float]:
        """A set's score minus the source's on each train and val task that both ran."""
        own, its = val[self.source.id], val.get(entry.id, {})
        on_val = [score - own[task] for task, score in its.items() if task in own]
        return [*entry.differences(), *on_val]

    def tied(self) -> Candidate | None:
        """The first set that may be as good as the source."""
        return next((entry.candidate for entry in self._ranked(self.entered)), None)

    def sentence(self) -> str:
        """Summary of the search and why it ended."""
        count = f"{counted(len(self.entered), 'set')} of demonstrations for {self._target!r}"
        return f"{count}; {self.ended.why}."

    async def _entry(self, number: int, demos: Sequence[Demonstration]) -> RaceEntry | None:
        parent = self._lab.baseline.resources[self._target]
        assert isinstance(parent, PromptTemplate)
        try:
            template = with_section(parent, demos, self._task_slot)
        except InputError:
            return None
        candidate = self._lab.propose(
            {self._target: template},
            algorithm=FewShot.name,
            reason=f"{_described(demos)} ({counted(sum(d.tokens for d in demos), 'token')}) were "
            f"put {'before the task in' if self._task_slot else 'at the end of'} "
            f"{self._target!r}.",
        )
        if await self._lab.check(candidate):
            return None
        self._shown[number] = {demo.task_id for demo in demos}
        return RaceEntry(number, candidate, self.source)

    async def _evaluate(self, entry: RaceEntry, tasks: Sequence[Task]) -> list[Evaluation]:
        hidden = [t for t in tasks if t.id not in self._shown[entry.number]]
        return await self._lab.evaluate(entry.candidate, hidden) if hidden else []

    def _ranked(self, entries: Sequence[RaceEntry]) -> list[RaceEntry]:
        """Entries that have run and may be the best, best first."""
        able = [
            entry
            for entry in entries
            if entry.scores and not self.is_worse(entry, len(self._tasks))
        ]
        if not able:
            return []
        leader = self.best([self.source, *able])
        able = [entry for entry in able if self.may_lead(entry, leader)]
        return sorted(able, key=lambda entry: (-self.standing(entry).mean, entry.number))

    def _report(self, entry: RaceEntry, *, pruned: bool) -> None:
        accepted = not pruned and entry in self.finalists()
        self._lab.judged(
            Proposal(
                number=entry.number - 1,
                candidate_id=entry.id,
                value=entry.mean(),
                tasks=len(entry.scores),
                pruned=pruned,
                best=max(entry.mean() for entry in (self.source, *self.entered)),
                rollouts=self._lab.spent.rollouts,
                accepted=entry.gained() if accepted else "",
            )
        )


async def _task_slot(lab: Lab, target: str, source: RaceEntry) -> str:
    """The placeholder that holds the task: the one whose value differs in the traces; None if there
    is none."""
    template = lab.baseline.resources[target]
    assert isinstance(template, PromptTemplate)
    if not template.placeholders:
        return ""
    looked = list(source.evaluations.values())[:ROLLOUTS_EXAMINED]
    traces = await asyncio.gather(*(lab.spans(evaluation) for evaluation in looked))
    fillings = [sent.slots for spans in traces if (sent := sent_prompt(template, spans))]
    slots = shape_of(template).slots if fillings else ()
    varying = (slot for slot in slots if len({filling[slot] for filling in fillings}) > 1)
    return next(varying, "")


def _room_in(lab: Lab, target: str) -> int:
    """Tokens that a prompt may still grow by, to pass the check of its length."""
    own, current = lab.source.resources[target], lab.baseline.resources[target]
    assert isinstance(own, PromptTemplate)
    assert isinstance(current, PromptTemplate)
    heading = len("\n\n# Examples\n\n")
    return (longest(own.text) - len(current.text) - heading) // CHARACTERS_A_TOKEN


def _left(lab: Lab) -> int:
    """Rollouts left."""
    if lab.budget.rollouts is None:
        return UNLIMITED_ROLLOUTS
    return lab.budget.rollouts - lab.spent.rollouts


def _described(demos: Sequence[Demonstration]) -> str:
    expected = sum(demo.expected for demo in demos)
    text = f"{counted(len(demos), 'example')} from train tasks"
    if expected == len(demos):
        return f"{text} with their expected answers"
    return f"{text} that went well" + (f" or, {expected} of them, as expected" if expected else "")
