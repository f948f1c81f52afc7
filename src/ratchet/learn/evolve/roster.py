"""Who can propose changes, and when somebody is asked no more.

A proposer that brings nothing costs: a coach costs money, and its candidates rollouts. So each is
watched for what may go wrong with it, and leaves when that goes on: drafts that hold nothing usable
or nothing new, candidates that do not run, candidates of which none ever leads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ratchet.learn.algorithm import SearchEnd
from ratchet.learn.evolve.budget import SearchLedger
from ratchet.learn.evolve.population import Member
from ratchet.learn.lab import Lab
from ratchet.learn.proposers import Draft, Proposer
from ratchet.llm import CoachUnavailable

FRUITLESS = {True: 24, False: 200}
"""Drafts in a row without a new candidate, or candidates in a row none of which runs, after which a
proposer is asked no more: of one that asks a coach, and of one that does not."""

USELESS = 10
"""Drafts in a row that a coach was paid for and that held nothing usable, after which it is asked
no more."""

BARREN = 100
"""Candidates of a coach in a row none of which leads, after which it is asked no more; half of all
that were judged when that is more, so that a search which got on for long is not given up too soon.
"""

UNTIL_FIRST = 2
"""How many times as many while none has led yet."""

CALLS_SPENT = SearchEnd("budget", "the budget's coach calls are spent")


class ProposerRoster:
    """The proposers of a search.

    Args:
        lab: Where the search works.
        ledger: What is committed.
        proposers: Who drafts changes.
    """

    def __init__(self, lab: Lab, ledger: SearchLedger, proposers: Sequence[Proposer]) -> None:
        self._lab = lab
        self._ledger = ledger
        self._proposers = {proposer.name: proposer for proposer in proposers}
        # Each counts drafts or candidates in a row, by proposer.
        self._fruitless: Counter[str] = Counter()
        self._useless: Counter[str] = Counter()
        self._broken: Counter[str] = Counter()
        self._barren: Counter[str] = Counter()
        self._judged: Counter[str] = Counter()
        """Candidates judged, by proposer."""
        self.coach_lost: CoachUnavailable | None = None
        self.exhausted: SearchEnd | None = None
        """Why nobody can propose any more; None while somebody can."""

    @property
    def waits(self) -> bool:
        """Whether proposals take a while: somebody outside is asked."""
        return any(proposer.coach_calls for proposer in self._proposers.values())

    @property
    def is_empty(self) -> bool:
        """Whether nobody is left."""
        return not self._proposers

    def proposer(self, name: str) -> Proposer:
        """The proposer of a name."""
        return self._proposers[name]

    def able(self, parent: Member) -> dict[str, list[str]]:
        """Who can change which resources of a parent, by the proposer's name."""
        calls = self._ledger.calls_left()
        able: dict[str, list[str]] = {}
        for name, proposer in self._proposers.items():
            if proposer.coach_calls and calls < 1:
                self.exhausted = CALLS_SPENT
                continue
            targets = [
                target
                for target in self._lab.targets
                if proposer.suits(parent.candidate.resources[target])
            ]
            if targets:
                able[name] = targets
        if not able and not self.exhausted:
            self.exhausted = SearchEnd("idle", "nobody can propose anything more")
        return able

    def drafted(self, proposer: Proposer, draft: Draft, *, new: bool) -> None:
        """Hear of a draft, and whether it was a new candidate."""
        name = proposer.name
        self._useless[name] = self._useless[name] + bool(draft.replies) if draft.problem else 0
        self._fruitless[name] = 0 if new else self._fruitless[name] + 1
        if self._fruitless[name] >= FRUITLESS[bool(proposer.coach_calls)]:
            self._dismiss(
                name,
                SearchEnd(
                    "idle", f"{self._fruitless[name]} drafts of {name} in a row were nothing new"
                ),
            )
        elif self._useless[name] >= USELESS:
            self._dismiss(
                name,
                SearchEnd(
                    "idle", f"{self._useless[name]} drafts of {name} in a row could not be used"
                ),
            )

    def ran(self, member: Member, ran: bool) -> None:
        """Hear whether a candidate ran: what the checks refuse, or what always fails, is worth no
        more than what is not new."""
        name = member.proposer
        self._broken[name] = 0 if ran else self._broken[name] + 1
        proposer = self._proposers.get(name)
        if proposer and self._broken[name] >= FRUITLESS[bool(proposer.coach_calls)]:
            why = f"{self._broken[name]} candidates of {name} in a row did not run"
            self._dismiss(name, SearchEnd("idle", why))

    def judged(self, member: Member, leads: bool) -> None:
        """Hear whether a candidate leads, now that it is judged."""
        name = member.proposer
        self._judged[name] += 1
        self._barren[name] = 0 if leads else self._barren[name] + 1
        proposer = self._proposers.get(name)
        has_led = self._judged[name] > self._barren[name]
        enough = max(BARREN, self._judged[name] / 2) if has_led else UNTIL_FIRST * BARREN
        if proposer and proposer.coach_calls and self._barren[name] >= enough:
            count = self._barren[name]
            self._dismiss(
                name, SearchEnd("idle", f"of {count} candidates of {name} in a row none led")
            )

    def lost(self, name: str, error: CoachUnavailable | None) -> None:
        """Hear that a proposer cannot go on: its coach is gone, or the budget for it."""
        if error is not None:
            self.coach_lost = error
            why = f"the coach could not be asked any more: {error.message.rstrip('.')}"
            self._dismiss(name, SearchEnd("coach", why))
        else:
            self._dismiss(name, CALLS_SPENT)

    def _dismiss(self, name: str, end: SearchEnd) -> None:
        self._proposers.pop(name, None)
        self.exhausted = None if self._proposers else end
