"""The search: an asynchronous beam of prompts, in which every rollout is used more than once.

ProTeGi's beam search has three steps a round, and each waits for the one before: critique, edit,
evaluate all. Here a proposal goes through them on its own, so that critiques, edits and rollouts of
many proposals run at the same time; what ended first is asked of the lab, so that a resumed search
decides the same. A proposal runs a few telling tasks that its parent has run, and goes on to more
only while it seems better than its parent (successive halving on growing subsets: Jamieson &
Talwalkar 2016). One that has run all that its parent has may enter the beam, and its own low
rollouts are what the next critiques are made from: no rollout is spent on gradients alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any

from ratchet.learn.algorithm import SPENT, SearchEnd
from ratchet.learn.apo.ablation import Ablation
from ratchet.learn.apo.budget import SearchSizes, SearchSpending, SizeOptions
from ratchet.learn.apo.coaching import CALLS_AN_EDIT, Coaching, EditOrder, PromptDraft, low_rollouts
from ratchet.learn.apo.ordering import (
    calls_of,
    drawn_parent,
    first_passes,
    lessons_for,
    order_of,
    ranked,
    telling,
)
from ratchet.learn.budget import BudgetExhausted
from ratchet.learn.lab import Lab
from ratchet.learn.race import EVEN, Race, RaceEntry, next_part, untried
from ratchet.learn.work import Evaluation, Proposal
from ratchet.types import Task

USELESS = 8
"""Proposals in a row from which nothing could be tried, after which the search ends."""

STUCK = 3
"""Such proposals after which it takes further tasks in."""

PATIENCE = 6
"""Proposals without a better best after which further rounds end, at least."""

STRIDE = 4
"""How many rungs of train tasks come in at once when the leader has solved all there were."""

UNTIL_FIRST = 3
"""How many times as many while none has brought anything yet."""


class PromptSearch:
    """One search.

    Args:
        lab: Where it works.
        coaching: Makes drafts.
        wanted: What the options ask for.
        sizes: How the budget is divided.
        panel: Train tasks in the order in which they come into play.
        val: Val tasks that finalists run.
        race: What is known of the source, and will be of the proposals.
        source: The baseline, with what it ran already.
        reserve: Rollouts that are kept for the comparison on val.
        while_better: Whether rounds follow those that were asked for, while they bring something.
    """

    def __init__(
        self,
        lab: Lab,
        coaching: Coaching,
        *,
        wanted: SizeOptions,
        sizes: SearchSizes,
        panel: Sequence[Task],
        val: Sequence[Task],
        race: Race[RaceEntry],
        source: RaceEntry,
        reserve: int,
        while_better: bool,
    ) -> None:
        self._lab = lab
        self._coaching = coaching
        self._wanted = wanted
        self._sizes = sizes
        self._order = list(panel)
        self._panel = self._order[: sizes.panel]
        self._val = list(val)
        self._reserve = reserve
        self._while_better = while_better
        self._pending: dict[str, asyncio.Task[Any]] = {}
        self._events = 0
        self._orders: dict[int, EditOrder] = {}
        self._drafts: dict[int, PromptDraft] = {}
        self._race = race
        self._racing: dict[int, RaceEntry] = {}
        self._waiting: dict[int, RaceEntry] = {}
        """Proposals that run on when they promise more than new ones do."""
        self._seen = {source.candidate.id}
        self._critiqued: Counter[int] = Counter()
        """Drafts ordered, by the number of the parent."""
        self._targets: dict[str, tuple[int, int]] = {}
        """Edits that were kept and that were tried, by the prompt that they changed."""
        self._refusals: dict[int, list[str]] = {}
        """Why edits could not be tried, by the number of the parent."""
        self._unusable = 0
        self._best_at = 0
        self._end: SearchEnd | None = None
        self._asked: dict[int, set[str]] = {}
        """Ids of the tasks that each entry was asked to run, by its number."""
        self._ablation = Ablation(source.candidate, tuple(lab.targets), sizes.rollouts)
        self._spending = SearchSpending(lab, reserve=reserve, known=source.evaluations.values())
        self.source = source
        self.beam: list[RaceEntry] = [source]
        """The best entries that are decided, best first."""
        self.proposals = 0
        """Proposals ordered."""
        self.judged = 0
        """Proposals that are decided."""
        self.pruned = 0
        self.refused = 0
        self.untried = 0
        """Proposals for which nothing was left."""
        self.accepted = 0
        self.problems: list[str] = []
        """Why proposals could not be tried."""
        self.validated: int | None = None
        """Number of the entry that has run the val tasks before the end."""

    async def run(self) -> SearchEnd:
        """Search until nothing is left to do; returns how it ended."""
        try:
            while True:
                self._fill()
                self._validate()
                if not self._pending:
                    return self._end or SPENT
                await asyncio.sleep(0)  # what has just begun takes its share of the budget
                self._spending.settle()
                if self._only_drafts_left():
                    orders = [self._orders[number_of(name)] for name in self._pending]
                    await self._lab.drop([self._coaching.step(o) for o in orders])
                    return self._end or SPENT
                name = await self._lab.first(f"apo/{self._events:06d}", self._pending)
                self._events += 1
                task = self._pending.pop(name)
                try:
                    result = task.result()
                except BudgetExhausted as error:
                    self._ran_out(name, error)
                    continue
                self._take(name, result)
        finally:
            for task in self._pending.values():
                task.cancel()
            await asyncio.gather(*self._pending.values(), return_exceptions=True)

    def finalists(self) -> list[RaceEntry]:
        """Those to compare on val, best first; the source is not among them."""
        known = [c for c in (*self._racing.values(), *self._waiting.values()) if c.scores]
        others = [c for c in self._ranked([*self.beam, *known]) if c.number]
        least = self._race.standing(self.source).mean
        better = [c for c in others if self._race.standing(c).mean > least]
        return better[: self._sizes.finalists]

    # What to begin.

    def _fill(self) -> None:
        """Begin what may be begun."""
        self._grow()
        self._resume()
        while self._may_propose():
            self._propose()

    def _resume(self) -> None:
        """Let those run on that waited and promise more than new proposals do."""
        for entry in self._ranked(list(self._waiting.values())):
            free = self._under_way() < self._sizes.width
            if not self._end and free and self._promises_most(entry):
                del self._waiting[entry.number]
                self._racing[entry.number] = entry
                self._next_rung(entry)

    def _may_propose(self) -> bool:
        if self._end or self._under_way() >= self._sizes.width:
            return False
        self._end = self._ended()
        if self._end:
            return False
        if not low_rollouts(self.beam[0]):
            # The best leaves nothing to learn from on the panel; if it grows there may be.
            if not self._pending:
                self._end = SearchEnd("solved", "every train task that was tried is solved")
            return False
        return True

    def _under_way(self) -> int:
        """Proposals that are drafted or race."""
        return len(self._orders.keys() | self._racing.keys())

    def _ended(self) -> SearchEnd | None:
        rounds, size = self._wanted.beam_rounds, self._sizes.round
        if self._unusable >= USELESS:
            return SearchEnd(
                "idle", f"{self._unusable} answers of the coach in a row could not be tried"
            )
        tried = self.proposals - self.refused  # what cost no rollout is no part of a round
        if tried >= rounds * size:
            quiet = tried - self._best_at
            if not self._while_better:
                return SearchEnd("limit", f"{rounds} rounds are done")
            if quiet >= max(size, PATIENCE) * (1 if self.accepted else UNTIL_FIRST):
                why = f"{rounds} rounds are done, and {quiet} proposals brought nothing better"
                return SearchEnd("idle", why)
        spent = self._left() < self._sizes.rung or self._spending.calls_left() < 1 + CALLS_AN_EDIT
        if spent or not self._lab.may_continue(f"apo/{self.proposals:04d}"):
            return SPENT
        return None

    def _only_drafts_left(self) -> bool:
        """Whether nothing is awaited but drafts for which too few rollouts are left."""
        waits = all(name.startswith("draft/") for name in self._pending)
        return self._end is not None and waits and self._left() < self._sizes.rung

    def _propose(self) -> None:
        number = self.proposals + 1
        self.proposals = number
        if self._leave_out(number):
            return
        parent = drawn_parent(self.beam, self._race, self._lab.rng)
        turn = self._critiqued[parent.number]
        self._critiqued[parent.number] += 1
        order = order_of(
            number,
            parent,
            turn=turn,
            batch=self._wanted.gradient_batch_size,
            passes=first_passes(number, self._sizes),
            calls=self._spending.calls_left(),
            draw=self._lab.rng.random(),
            worth={name: (kept + 1) / (tried + 2) for name, (kept, tried) in self._targets.items()},
            lessons=lessons_for(parent, self.beam, self._drafts),
            earlier=self._refusals.get(parent.number, ()),
        )
        self._orders[number] = order
        self._spending.ask(calls_of(order))
        self._begin(f"draft/{number}", self._coaching.draft(order))

    def _validate(self) -> None:
        """Let the leader run the val tasks while the last proposals race: slots are free."""
        leader = self.beam[0]
        if self._end and self._racing and self.validated is None and leader.number:
            self.validated = leader.number
            self._spending.drew(len(self._val))
            work = self._lab.evaluate(leader.candidate, self._val)
            self._begin(f"val/{leader.number}", work)

    def _leave_out(self, number: int) -> bool:
        """Propose the leader without one of its lines, if it is time for that."""
        leader = self.beam[0]
        quiet = self.proposals - self.refused - self._best_at
        found = self._ablation.next(leader.candidate, number=number, quiet=quiet)
        if found is None:
            return False
        order = EditOrder(
            number=number, parent=leader, batches=0, batch=0, turn=0, passes=0, draw=0.0
        )
        self._orders[number] = order
        self._begin(f"draft/{number}", self._coaching.without(order, *found))
        return True

    def _grow(self) -> None:
        """Take further train tasks in: as the budget is spent, and when too little is left to gain.

        The leaders run them, and what they fail there is what the next critiques are made from.
        """
        size = self._sizes
        leaders = self._leaders()
        if not self._end and not self._untried(leaders[0]) and len(self._panel) < len(self._order):
            search = max(1, size.rollouts - self._reserve)
            spent = min(1.0, max(0.0, (search - self._left()) / search))
            target = size.panel + round((size.panel_most - size.panel) * spent)
            low = len(low_rollouts(leaders[0]))
            short = low < max(2, self._wanted.gradient_batch_size // 2)
            is_idle = len(self._asked_of(leaders[0])) == len(leaders[0].evaluations)
            # A coach that has nothing to say of these rollouts may have of others.
            stuck = self._unusable >= STUCK
            if (len(self._panel) < target or short or stuck) and is_idle:
                more = size.rung * (1 if low else STRIDE)
                self._panel = self._order[: len(self._panel) + more]
        for entry in leaders:
            tasks = self._untried(entry)
            if tasks and self._left() >= len(tasks) + size.rung:
                self._run(entry, tasks)

    def _leaders(self) -> list[RaceEntry]:
        """The best, and who may be as good."""
        return [c for c in self.beam if self._race.may_lead(c, self.beam[0])][:2]

    def _untried(self, entry: RaceEntry) -> list[Task]:
        """Tasks of the panel that a entry was not asked to run."""
        asked = self._asked_of(entry)
        return [task for task in self._panel if task.id not in asked]

    def _asked_of(self, entry: RaceEntry) -> set[str]:
        return self._asked.setdefault(entry.number, set(entry.evaluations))

    def _run(self, entry: RaceEntry, tasks: Sequence[Task]) -> None:
        name = f"run/{entry.number}/{len(self._asked_of(entry))}"
        self._asked_of(entry).update(task.id for task in tasks)
        self._spending.begun(len(tasks))
        self._begin(name, self._evaluated(entry, list(tasks)))

    async def _evaluated(
        self, entry: RaceEntry, tasks: Sequence[Task]
    ) -> tuple[RaceEntry, list[Evaluation]]:
        return entry, await self._lab.evaluate(entry.candidate, tasks)

    def _begin(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        self._pending[name] = asyncio.create_task(work)

    # What has ended.

    def _take(self, name: str, result: Any) -> None:
        if name.startswith("draft/"):
            self._drafted(number_of(name), result)
            return
        if name.startswith("val/"):
            return  # the comparison takes it from the lab
        entry, evaluations = result
        self._race.add(entry, evaluations)
        self._spending.ended(evaluations)
        if entry.number in self._racing:
            self._raced(entry)
        else:
            self.beam = self._ranked(self.beam)

    def _drafted(self, number: int, draft: PromptDraft) -> None:
        order = self._orders[number]
        self._spending.ask(len(draft.replies) - calls_of(order))
        self._spending.answered(draft.replies)
        self._drafts[number] = draft
        candidate = draft.candidate
        problem = draft.problem
        if candidate is not None and candidate.id in self._seen:
            problem = "It was proposed before."
        if candidate is None or problem:
            self.refused += 1
            self._unusable += 1
            self.problems.append(problem)
            self._refusals.setdefault(order.parent.number, []).append(problem)
            self._settle(number, survived=False)
            return
        self._seen.add(candidate.id)
        self._unusable = 0
        entry = RaceEntry(number, candidate, order.parent)
        self._racing[number] = entry
        self._next_rung(entry)

    def _next_rung(self, entry: RaceEntry) -> None:
        """Run the next tasks, as many as before, while the budget allows."""
        ahead = self._ahead(entry)
        known = len(entry.evaluations)
        count = min(next_part(known, self._sizes.rung, known + len(ahead)), self._left())
        if count < 1:
            self._judge(entry, complete=not ahead)
        else:
            self._run(entry, ahead[:count])

    def _ahead(self, entry: RaceEntry) -> list[Task]:
        """Tasks that a proposal has still to run until it is decided."""
        assert entry.parent is not None
        ordered = telling(entry.parent, self._panel, self._drafts[entry.number].shown)
        return untried(entry, ordered)[: max(0, self._sizes.most - len(entry.evaluations))]

    def _raced(self, entry: RaceEntry) -> None:
        """Drop a proposal, take it into the beam, or let it run on now or later to be surer."""
        if not entry.scores:
            self._judge(entry, complete=False, lost=True)  # nobody can say what it is worth
        elif self._race.is_worse(entry, len(self._panel)):
            self._judge(entry, complete=False, lost=True)
        elif not self._ahead(entry):
            self._judge(entry, complete=True, lost=self._is_no_better(entry))
        elif not self._promises_most(entry):
            self._waiting[entry.number] = entry
            self._judge(entry, complete=False, lost=True)
        else:
            self._next_rung(entry)

    def _is_no_better(self, entry: RaceEntry) -> bool:
        assert entry.parent is not None
        return self._race.standing(entry).mean <= self._race.standing(entry.parent).mean + EVEN

    def _promises_most(self, entry: RaceEntry) -> bool:
        """Whether a proposal may lead, and is worth more than a new one."""
        # The first drafts all beat the source: only each other says which are worth more.
        racing = [one for one in self._racing.values() if one.scores]
        if not self._race.may_lead(entry, self._race.best([*self.beam, *racing])):
            return False
        known = len(entry.evaluations)
        cost = next_part(known, self._sizes.rung, known + len(self._ahead(entry)))
        share = (self.accepted + 1) / (self.accepted + self.pruned + 2)
        return self._race.is_worth(entry, cost, share=share, draft=self._sizes.rung)

    def _judge(self, entry: RaceEntry, *, complete: bool, lost: bool = False) -> None:
        """Decide on a proposal, and tell."""
        number = entry.number
        del self._racing[number]
        if not entry.evaluations:
            self.untried += 1  # no rollout was left for it: it speaks neither for nor against
            del self._orders[number]
            return
        waited = number not in self._orders
        before = self.beam[0]
        kept = not lost and bool(entry.scores)
        if kept:
            self.beam = self._ranked([*self.beam, entry])[: self._sizes.beam]
            kept = entry in self.beam
        sentence = ""
        if kept:
            self.accepted += 1
            sentence = entry.gained()
            if self.beam[0] is entry and before is not entry:
                self._best_at = self.proposals - self.refused
        elif waited:
            return  # it was told when it began to wait
        else:
            self.pruned += 1
        self.judged += 1
        self._lab.judged(
            Proposal(
                number=self.judged - 1,
                candidate_id=entry.candidate.id,
                value=entry.mean(),
                tasks=len(entry.scores),
                pruned=not complete,
                best=self.beam[0].mean(),
                rollouts=self._lab.spent.rollouts,
                accepted=sentence,
            )
        )
        if not waited:
            self._settle(number, survived=kept)

    def _settle(self, number: int, *, survived: bool) -> None:
        """A proposal is through: its place is free, and the coach hears what became of it."""
        del self._orders[number]
        target = self._drafts[number].target
        if target:
            kept, tried = self._targets.get(target, (0, 0))
            self._targets[target] = (kept + survived, tried + 1)
        for reply in self._drafts[number].replies:
            self._lab.credit(reply, survived)

    def _ran_out(self, name: str, error: BudgetExhausted) -> None:
        """Something did not begin since the budget is spent: end with what is there."""
        self._end = self._end or SPENT
        kind, number, *_ = name.split("/")
        if kind == "draft":
            self._drafts[int(number)] = PromptDraft(problem=error.message)
            order = self._orders[int(number)]
            self._spending.ask(-calls_of(order))
            self.untried += 1
            self._settle(int(number), survived=False)
        elif int(number) in self._racing:
            self._judge(self._racing[int(number)], complete=False)

    def _ranked(self, entries: Sequence[RaceEntry]) -> list[RaceEntry]:
        return ranked(entries, self._race)

    def _left(self) -> int:
        """Rollouts that the search may still begin."""
        return self._spending.rollouts_left(sum(map(len, self._asked.values())))


def number_of(name: str) -> int:
    """The number of the proposal that a draft under way is for."""
    return int(name.split("/")[1])
