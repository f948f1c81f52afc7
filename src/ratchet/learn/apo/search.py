"""The search: an asynchronous beam of prompts in which every rollout is used more than once.

ProTeGi's beam search has three sequential steps per round: critique, edit, evaluate all. Here each
proposal passes through them independently, so that critiques, edits and rollouts of many proposals
run concurrently. The lab records the completion order, so that a resumed search makes the same
decisions. A proposal runs a few informative tasks that its parent has run, and continues to more
only while it seems better than its parent (successive halving on growing subsets: Jamieson &
Talwalkar 2016). A proposal that has run all its parent's tasks may enter the beam, and its own
low-scoring rollouts are the input of the next critiques: no rollout is spent on gradients alone.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any

from ratchet.learn.algorithm import CALLS_SPENT, SPENT, SearchEnd
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
from ratchet.learn.evidence import EvidenceSelector, TriedChange, tried_change
from ratchet.learn.lab import Lab
from ratchet.learn.race import EVEN, Race, RaceEntry, next_part, untried
from ratchet.learn.work import Evaluation, Proposal
from ratchet.types import Task

USELESS = 8
"""Number of unusable proposals in a row after which the search ends."""

STUCK = 3
"""Number of unusable proposals in a row after which the panel grows."""

PATIENCE = 6
"""Minimum number of proposals without a better best after which further rounds end."""

STRIDE = 4
"""Number of rungs of train tasks to add at once when the leader has solved the panel."""

DECLINED = 3
"""Number of answers in a row that nothing should change, after which the coach is no longer asked
about a prompt, until that has run more tasks."""

LINEAGE, SIBLINGS = 4, 6
"""Maximum number of earlier edits told to the coach: those that made a prompt, and those tried on
it."""

UNTIL_FIRST = 3
"""Factor on that number of proposals before the first acceptance."""


class PromptSearch:
    """One search over a beam of prompts.

    Args:
        lab: The lab to search in.
        coaching: Drafts the edits.
        options: The size options.
        sizes: Sizes of the search.
        panel: Train tasks in the order in which they enter the panel.
        val: Val tasks that finalists run.
        race: The race, which already contains the source.
        source: The baseline, with the evaluations so far.
        reserve: Rollouts reserved for the comparison on val.
        while_better: Whether to add rounds beyond those requested while they improve.
    """

    def __init__(
        self,
        lab: Lab,
        coaching: Coaching,
        *,
        options: SizeOptions,
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
        self._options = options
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
        """Paused proposals, resumed when they promise more than new ones do."""
        self._seen = {source.candidate.id}
        self._critiqued: Counter[int] = Counter()
        """Number of drafts ordered, by parent number."""
        self._targets: dict[str, tuple[int, int]] = {}
        """Number of accepted and of evaluated edits, by the prompt they changed."""
        self._refusals: dict[int, list[str]] = {}
        """Why edits were unusable, by parent number."""
        self._evidence = EvidenceSelector()
        self._spared: dict[int, int] = {}
        """Entries that the coach is no longer asked about: number of tasks that they had run when
        that was decided, by entry number."""
        self._declined: Counter[int] = Counter()
        """Number of answers in a row that nothing should change, by parent number."""
        self._tried: dict[int, list[TriedChange]] = {}
        """Edits tried on each entry, by its number."""
        self._says_all = False
        """Whether the coach had nothing to add to its last edit when it was asked again: then each
        draft is one edit."""
        self._unusable = 0
        self._best_at = 0
        self._end: SearchEnd | None = None
        self._asked: dict[int, set[str]] = {}
        """Ids of the tasks requested for each entry, by entry number."""
        self._ablation = Ablation(source.candidate, tuple(lab.targets), sizes.rollouts)
        self._spending = SearchSpending(lab, reserve=reserve, known=source.evaluations.values())
        self.source = source
        self.beam: list[RaceEntry] = [source]
        """The best decided entries, best first."""
        self.proposals = 0
        """Proposals ordered."""
        self.judged = 0
        """Number of decided proposals."""
        self.pruned = 0
        self.refused = 0
        self.untried = 0
        """Number of proposals never evaluated because the budget was spent."""
        self.accepted = 0
        self.unchanged = 0
        """Number of proposals that the coach declined to make."""
        self.problems: list[str] = []
        """Why proposals were unusable."""
        self.validated: int | None = None
        """Number of the entry that ran the val tasks before the end."""

    async def run(self) -> SearchEnd:
        """Search until no work is left; returns how it ended."""
        try:
            while True:
                self._fill()
                self._validate()
                if not self._pending:
                    return self._end or SPENT
                await asyncio.sleep(0)  # new tasks must claim their share of the budget first
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
        """Entries to compare on val, best first, without the source."""
        known = [c for c in (*self._racing.values(), *self._waiting.values()) if c.scores]
        others = [c for c in self._ranked([*self.beam, *known]) if c.number]
        least = self._race.standing(self.source).mean
        better = [c for c in others if self._race.standing(c).mean > least]
        return better[: self._sizes.finalists]

    # Starting work.

    def _fill(self) -> None:
        """Start all work that is allowed."""
        self._grow()
        self._resume()
        while self._may_propose():
            self._propose()

    def _resume(self) -> None:
        """Resume paused proposals that promise more than new ones do."""
        for entry in self._ranked(list(self._waiting.values())):
            free = self._under_way() < self._sizes.width
            if not self._end and free and self._promises_most(entry):
                del self._waiting[entry.number]
                self._racing[entry.number] = entry
                self._next_rung(entry)

    def _may_propose(self) -> bool:
        if self._end or self._under_way() >= self._sizes.width:
            return False
        drafts = any(name.startswith("draft/") for name in self._pending)
        if drafts and self._spending.calls_left() < 1 + CALLS_AN_EDIT:
            return False  # drafts in progress reserve more calls than most of them need
        self._end = self._ended()
        if self._end:
            return False
        if not low_rollouts(self.beam[0]):
            # The best solves the whole panel; critiques need a larger one.
            if not self._pending:
                self._end = SearchEnd("solved", "every train task that was tried is solved")
            return False
        if not self._able():
            if not self._pending:
                self._end = SearchEnd("idle", "the coach has no change left for any of the best")
            return False
        return True

    def _able(self) -> list[RaceEntry]:
        """The members of the beam that the coach can be asked about."""
        return [c for c in self.beam if low_rollouts(c) and not self._is_spared(c)]

    def _is_spared(self, entry: RaceEntry) -> bool:
        return self._spared.get(entry.number, -1) >= len(entry.evaluations)

    def _under_way(self) -> int:
        """Number of proposals being drafted or racing."""
        return len(self._orders.keys() | self._racing.keys())

    def _ended(self) -> SearchEnd | None:
        rounds, size = self._options.beam_rounds, self._sizes.round
        if self._unusable >= USELESS:
            return SearchEnd(
                "idle", f"{self._unusable} answers of the coach in a row could not be tried"
            )
        # Proposals without rollouts are not part of a round.
        tried = self.proposals - self.refused - self.unchanged
        if tried >= rounds * size:
            quiet = tried - self._best_at
            if not self._while_better:
                return SearchEnd("limit", f"{rounds} rounds are done")
            if quiet >= max(size, PATIENCE) * (1 if self.accepted else UNTIL_FIRST):
                why = f"{rounds} rounds are done, and {quiet} proposals brought nothing better"
                return SearchEnd("idle", why)
        if self._left() < self._sizes.rung:
            return SPENT
        calls = self._spending.calls_left()
        if calls < 1 + CALLS_AN_EDIT:
            few = f"of the budget's coach calls {calls} are left, too few for another edit"
            return SearchEnd("budget", few) if calls > 0 else CALLS_SPENT
        return None if self._lab.may_continue(f"apo/{self.proposals:04d}") else SPENT

    def _only_drafts_left(self) -> bool:
        """Whether only drafts are pending, and too few rollouts are left to evaluate them."""
        waits = all(name.startswith("draft/") for name in self._pending)
        return self._end is not None and waits and self._left() < self._sizes.rung

    def _propose(self) -> None:
        number = self.proposals + 1
        self.proposals = number
        if self._leave_out(number):
            return
        parent = drawn_parent(self._able(), self._race, self._lab.rng)
        order = order_of(
            number,
            parent,
            self._evidence,
            turn=self._critiqued[parent.number],
            batch=self._options.gradient_batch_size,
            passes=1 if self._says_all else first_passes(number, self._sizes),
            calls=self._spending.calls_left(),
            draw=self._lab.rng.random(),
            worth={
                name: (accepted + 1) / (tried + 2)
                for name, (accepted, tried) in self._targets.items()
            },
            lessons=lessons_for(parent, self.beam, self._drafts),
            earlier=self._refusals.get(parent.number, ()),
            tried=self._history(parent),
        )
        if order is None:
            self.proposals -= 1
            self._spared[parent.number] = len(parent.evaluations)
            return
        self._critiqued[parent.number] += 1
        self._orders[number] = order
        self._spending.ask(calls_of(order))
        self._begin(f"draft/{number}", self._coaching.draft(order))

    def _history(self, entry: RaceEntry) -> list[TriedChange]:
        """The edits that made an entry, and those tried on it."""
        line: list[RaceEntry] = []
        one = entry
        while one.parent is not None:
            line.insert(0, one)
            one = one.parent
        made = [tried_change(ancestor, kept=True) for ancestor in line[-LINEAGE:]]
        return [*made, *self._tried.get(entry.number, [])[-SIBLINGS:]]

    def _validate(self) -> None:
        """Run the val tasks for the leader while the last proposals race: slots are free."""
        leader = self.beam[0]
        if self._end and self._racing and self.validated is None and leader.number:
            self.validated = leader.number
            self._spending.drew(len(self._val))
            work = self._lab.evaluate(leader.candidate, self._val)
            self._begin(f"val/{leader.number}", work)

    def _leave_out(self, number: int) -> bool:
        """Propose an ablation of the leader, if one is due."""
        leader = self.beam[0]
        quiet = self.proposals - self.refused - self._best_at
        found = self._ablation.next(leader.candidate, number=number, quiet=quiet)
        if found is None:
            return False
        order = EditOrder(number=number, parent=leader, groups=(), passes=0, draw=0.0)
        self._orders[number] = order
        self._begin(f"draft/{number}", self._coaching.without(order, *found))
        return True

    def _grow(self) -> None:
        """Grow the panel as the budget is spent, and when the leader has little left to gain.

        The leaders run the new tasks, and their failures there are the input of the next critiques.
        """
        size = self._sizes
        leaders = self._leaders()
        if not self._end and not self._untried(leaders[0]) and len(self._panel) < len(self._order):
            search = max(1, size.rollouts - self._reserve)
            spent = min(1.0, max(0.0, (search - self._left()) / search))
            target = size.panel + round((size.panel_most - size.panel) * spent)
            low = len(low_rollouts(leaders[0]))
            short = low < max(2, self._options.gradient_batch_size // 2)
            short = short or self._is_spared(leaders[0])
            is_idle = len(self._asked_of(leaders[0])) == len(leaders[0].evaluations)
            # A coach without usable answers on these rollouts may have some on others.
            stuck = self._unusable >= STUCK
            if (len(self._panel) < target or short or stuck) and is_idle:
                more = size.rung * (1 if low else STRIDE)
                self._panel = self._order[: len(self._panel) + more]
        for entry in leaders:
            tasks = self._untried(entry)
            if tasks and self._left() >= len(tasks) + size.rung:
                self._run(entry, tasks)

    def _leaders(self) -> list[RaceEntry]:
        """The best entry, and one that may be as good."""
        return [c for c in self.beam if self._race.may_lead(c, self.beam[0])][:2]

    def _untried(self, entry: RaceEntry) -> list[Task]:
        """Tasks of the panel not yet requested for an entry."""
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

    # Handling results.

    def _take(self, name: str, result: Any) -> None:
        if name.startswith("draft/"):
            self._drafted(number_of(name), result)
            return
        if name.startswith("val/"):
            return  # the comparison reads it from the lab
        entry, evaluations = result
        self._race.add(entry, evaluations)
        self._spending.ended(evaluations)
        if entry.number in self._racing:
            self._raced(entry)
        else:
            self.beam = self._ranked(self.beam)

    def _drafted(self, number: int, draft: PromptDraft) -> None:
        order = self._orders[number]
        called = sum(reply.requests > 0 for reply in draft.replies)
        self._spending.ask(called - calls_of(order))
        self._spending.answered(draft.replies)
        self._drafts[number] = draft
        candidate = draft.candidate
        problem = draft.problem
        if order.passes > 1:
            self._says_all = draft.asked_in_vain
        if draft.declined:
            self._decline(order.parent)
            self._settle(number, survived=None)
            return
        self._declined.pop(order.parent.number, None)
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

    def _decline(self, parent: RaceEntry) -> None:
        """Record that the coach would change nothing."""
        self.unchanged += 1
        self._declined[parent.number] += 1
        if self._declined[parent.number] >= DECLINED:
            self._spared[parent.number] = len(parent.evaluations)

    def _next_rung(self, entry: RaceEntry) -> None:
        """Run the next part of tasks, within the budget."""
        ahead = self._ahead(entry)
        known = len(entry.evaluations)
        count = min(next_part(known, self._sizes.rung, known + len(ahead)), self._left())
        if count < 1:
            self._judge(entry, complete=not ahead)
        else:
            self._run(entry, ahead[:count])

    def _ahead(self, entry: RaceEntry) -> list[Task]:
        """Tasks that a proposal must still run before it is decided."""
        assert entry.parent is not None
        ordered = telling(entry.parent, self._panel, self._drafts[entry.number].shown)
        return untried(entry, ordered)[: max(0, self._sizes.most - len(entry.evaluations))]

    def _raced(self, entry: RaceEntry) -> None:
        """Drop a proposal, accept it into the beam, continue it, or pause it."""
        if not entry.scores:
            self._judge(entry, complete=False, lost=True)  # without a score, its worth is unknown
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
        """Whether a proposal may lead, and promises more than a new one."""
        # The first drafts all beat the source: they must be compared with each other.
        racing = [one for one in self._racing.values() if one.scores]
        if not self._race.may_lead(entry, self._race.best([*self.beam, *racing])):
            return False
        if math.fsum(self._race.gains(entry)) > EVEN:
            return True  # a draft takes many calls of the coach: small gains are followed up
        known = len(entry.evaluations)
        cost = next_part(known, self._sizes.rung, known + len(self._ahead(entry)))
        share = (self.accepted + 1) / (self.accepted + self.pruned + 2)
        return self._race.is_worth(entry, cost, share=share, draft=self._sizes.rung)

    def _judge(self, entry: RaceEntry, *, complete: bool, lost: bool = False) -> None:
        """Decide on a proposal, and report it."""
        number = entry.number
        del self._racing[number]
        if not entry.evaluations:
            self.untried += 1  # no rollouts were left for it: neither a success nor a failure
            del self._orders[number]
            return
        waited = number not in self._orders
        assert entry.parent is not None
        before = self.beam[0]
        accepted = not lost and bool(entry.scores)
        if accepted:
            self.beam = self._ranked([*self.beam, entry])[: self._sizes.beam]
            accepted = entry in self.beam
        sentence = ""
        if accepted:
            self.accepted += 1
            sentence = entry.gained()
            if self.beam[0] is entry and before is not entry:
                self._best_at = self.proposals - self.refused
        elif waited:
            return  # already reported when it was paused
        else:
            self.pruned += 1
        self.judged += 1
        if not waited:
            self._tried.setdefault(entry.parent.number, []).append(tried_change(entry))
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
            self._settle(number, survived=accepted)

    def _settle(self, number: int, *, survived: bool | None) -> None:
        """Release a proposal's slot, and credit or discredit its coach replies, or neither."""
        del self._orders[number]
        if survived is None:
            return
        target = self._drafts[number].target
        if target:
            accepted, tried = self._targets.get(target, (0, 0))
            self._targets[target] = (accepted + survived, tried + 1)
        for reply in self._drafts[number].replies:
            self._lab.credit(reply, survived)

    def _ran_out(self, name: str, error: BudgetExhausted) -> None:
        """Handle work that could not start because the budget is spent: end the search."""
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
        """Number of rollouts that the search may still start."""
        return self._spending.rollouts_left(sum(map(len, self._asked.values())))


def number_of(name: str) -> int:
    """The proposal number in the name of a pending draft."""
    return int(name.split("/")[1])
