"""The roster of proposers: retires those whose drafts bring nothing.

An unproductive proposer is expensive: a coach costs dollars, and its candidates rollouts. So the
roster counts failures in a row by proposer, and retires it at a limit: drafts without usable or new
content, candidates that do not run, candidates of which none leads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ratchet.learn.algorithm import CALLS_SPENT, SearchEnd
from ratchet.learn.evolve.budget import SearchLedger
from ratchet.learn.evolve.population import Member
from ratchet.learn.lab import Lab
from ratchet.learn.proposers import Draft, Proposer
from ratchet.llm import CoachUnavailable

FRUITLESS = {True: 24, False: 200}
"""Limit on drafts in a row without a new candidate, or candidates in a row that do not run: for
proposers that use a coach, and for those that do not."""

USELESS = 10
"""Limit on paid drafts of a coach in a row without usable content."""

BARREN = 100
"""Limit on candidates of a coach in a row none of which leads; half of all judged if that is more,
so that a long productive search does not end too soon.
"""

UNTIL_FIRST = 2
"""Factor on that limit before the first leader."""


class ProposerRoster:
    """The proposers of a search.

    Args:
        lab: The lab to search in.
        ledger: Committed spending.
        proposers: The proposers.
    """

    def __init__(self, lab: Lab, ledger: SearchLedger, proposers: Sequence[Proposer]) -> None:
        self._lab = lab
        self._ledger = ledger
        self._proposers = {proposer.name: proposer for proposer in proposers}
        # Counts of drafts or candidates in a row, by proposer.
        self._fruitless: Counter[str] = Counter()
        self._useless: Counter[str] = Counter()
        self._broken: Counter[str] = Counter()
        self._barren: Counter[str] = Counter()
        self._judged: Counter[str] = Counter()
        """Number of candidates judged, by proposer."""
        self.coach_lost: CoachUnavailable | None = None
        self.exhausted: SearchEnd | None = None
        """Why no proposer is left; None while there is one."""

    @property
    def waits(self) -> bool:
        """Whether proposals take long because an external coach is called."""
        return any(proposer.coach_calls for proposer in self._proposers.values())

    @property
    def is_empty(self) -> bool:
        """Whether no proposer is left."""
        return not self._proposers

    def proposer(self, name: str) -> Proposer:
        """The proposer with this name."""
        return self._proposers[name]

    def able(self, parent: Member) -> dict[str, list[str]]:
        """The resources of a parent that each proposer can change, by proposer name."""
        calls = self._ledger.calls_left()
        able: dict[str, list[str]] = {}
        for name, proposer in self._proposers.items():
            if proposer.coach_calls and calls < 1:
                if not self._ledger.calls_reserved:
                    self.exhausted = CALLS_SPENT
                continue
            targets = [
                target
                for target in self._lab.targets
                if proposer.suits(parent.candidate.resources[target])
            ]
            if targets:
                able[name] = targets
        if not able and not self.exhausted and not self._ledger.calls_reserved:
            self.exhausted = SearchEnd("idle", "no proposer is left")
        return able

    def drafted(self, proposer: Proposer, draft: Draft, *, new: bool) -> None:
        """Record a draft, and whether it made a new candidate."""
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
        """Record whether a candidate ran.

        One that the checks refuse, or that always fails, counts like a duplicate.
        """
        name = member.proposer
        self._broken[name] = 0 if ran else self._broken[name] + 1
        proposer = self._proposers.get(name)
        if proposer and self._broken[name] >= FRUITLESS[bool(proposer.coach_calls)]:
            why = f"{self._broken[name]} candidates of {name} in a row did not run"
            self._dismiss(name, SearchEnd("idle", why))

    def judged(self, member: Member, leads: bool) -> None:
        """Record whether a judged candidate leads."""
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
        """Retire a proposer that cannot continue: its coach is unavailable, or its budget spent."""
        if error is not None:
            self.coach_lost = error
            why = f"the coach is no longer available: {error.message.rstrip('.')}"
            self._dismiss(name, SearchEnd("coach", why))
        else:
            self._dismiss(name, CALLS_SPENT)

    def _dismiss(self, name: str, end: SearchEnd) -> None:
        self._proposers.pop(name, None)
        self.exhausted = None if self._proposers else end
