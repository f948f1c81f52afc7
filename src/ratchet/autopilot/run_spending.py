"""What a run spends in all its stages, and how much of its budget is kept for the proof."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from ratchet.autopilot.call_costs import JUDGE_CALL, call_costs
from ratchet.autopilot.project import Project
from ratchet.llm import Account, Reply
from ratchet.store import Store
from ratchet.types import BudgetExhausted, Cost, RatchetError, dollars_text, total_cost
from ratchet.types.wording import counted

_log = logging.getLogger("ratchet")

JUDGED = "judged/"
"""Journal key prefix of judges' costs in a step of learning."""

PROOF_PRICE = "proof-price"
"""Journal key of the cost of a scored rollout in the proof."""

RAISE = "Raise dollars under [improve.budget] in ratchet.toml."

MANY_CALLS = 100
"""A step's model calls are announced from this number on."""


class RolloutCap(NamedTuple):
    """The number of rollouts that a command may add in all its stages."""

    most: int
    """Number of rollouts."""
    since: float
    """Unix time at which the command began."""

    def for_learning(self, proof: int) -> int:
        """Rollouts that baseline and learning may take, given the most that the proof takes.

        The proof keeps its own, but no more than half: it often decides long before its end.
        """
        return max(self.most - proof, self.most // 2)


class RunSpending:
    """The account of a run.

    Args:
        store: Its store.
        run_id: The run.
        dollars: What the whole run may cost, the proof included; None for no limit.
    """

    def __init__(self, store: Store, run_id: str, dollars: float | None) -> None:
        self.dollars = dollars
        self._store = store
        self._run_id = run_id
        self._writing: set[asyncio.Future[None]] = set()

    def record(self, kind: str, reply: Reply) -> None:
        """Record the cost of a judge's call; coach calls are in the journal with their answers."""
        who, _, name = kind.partition(" ")
        if who != "judge":
            return
        body = {
            "evaluator": name,
            "model": reply.model,
            "requests": reply.requests,
            "cost_usd": reply.cost_usd,
        }
        # In a thread: the event loop must not wait for the store.
        writing = asyncio.get_running_loop().run_in_executor(None, self._write, body)
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)

    def _write(self, body: dict[str, Any]) -> None:
        key = f"{JUDGE_CALL}{uuid4().hex}"
        try:
            self._store.journal.append(self._run_id, key, body, time.time())
        except RatchetError as error:  # the answer is worth more than its receipt
            _log.warning("The cost of a judge's call was not stored: %s", error)

    async def account(self) -> Account:
        """An account of the remaining budget, with all that the run has spent so far."""
        await asyncio.gather(*self._writing)
        cost = await asyncio.to_thread(self._spent)
        return Account(self.dollars, name="The budget", hint=RAISE, spent=cost, record=self.record)

    def _spent(self) -> Cost:
        calls = call_costs(self._store.journal.read(self._run_id))
        return total_cost([self._store.rollouts.cost(queue=self._run_id), calls.cost])

    def outside_labs(self) -> list[Cost]:
        """Cost of calls outside the counted steps of learning: checks, report cards, lost steps."""
        entries = self._store.journal.read(self._run_id)
        judged = total_cost(
            msgspec.convert(body, Cost) for key, body in entries if key.startswith(JUDGED)
        )
        checks = [
            check for key, body in entries if key.startswith("coach-check/") for check in body
        ]
        judges_usd = call_costs(entries).of_judges.known_usd - judged.known_usd
        return [
            Cost(known_usd=max(0.0, judges_usd)),
            *(Cost.of(check["cost_usd"], check["model"]) for check in checks),
        ]

    def set_price(
        self, rollouts: Sequence[Cost], judged_usd: float, earlier: Sequence[str]
    ) -> None:
        """Record the cost of a scored rollout, from the baseline's rollouts.

        Args:
            rollouts: Cost of each of the baseline's rollouts.
            judged_usd: Dollars of the judges' answers that their scores rest on.
            earlier: Ids of runs that may have paid for these answers.
        """
        earlier_prices = [self._store.journal.get(id, PROOF_PRICE, {}) for id in earlier]
        judged = max(
            judged_usd / len(rollouts), *(k.get("judged_usd", 0.0) for k in earlier_prices), 0.0
        )
        rollout_usd = total_cost(rollouts).known_usd / len(rollouts) + judged
        body = {"each_usd": rollout_usd, "judged_usd": judged}
        self._store.journal.append(self._run_id, PROOF_PRICE, body, time.time())

    def price(self) -> tuple[float, float]:
        """Dollars of a scored rollout, and the judges' part of them; 0 if nothing is known."""
        stored_price = self._store.journal.get(self._run_id, PROOF_PRICE, {})
        return float(stored_price.get("each_usd", 0.0)), float(stored_price.get("judged_usd", 0.0))

    def for_learning(self, proof_rollouts: int, spent: float) -> tuple[float | None, str]:
        """Dollars that the run may have spent after learning, and a sentence on the proof's share.

        Args:
            proof_rollouts: Number of rollouts of the proof.
            spent: Dollars that the run has spent so far.

        Raises:
            BudgetExhausted: Nothing is left for learning.
        """
        if self.dollars is None:
            return None, ""
        rollout_usd, _ = self.price()
        proof_usd = proof_rollouts * rollout_usd
        proof = (
            f"the proof, of {counted(proof_rollouts, 'rollout')} at about"
            f" {dollars_text(rollout_usd)} each with their judges' calls"
        )
        left = self.dollars - proof_usd
        if left <= spent:
            raise BudgetExhausted(
                f"The budget of ${self.dollars:g} leaves nothing for learning:"
                f" {dollars_text(spent)} is spent, and {proof}, takes about"
                f" {dollars_text(proof_usd)}.",
                hint=RAISE,
            )
        if not proof_usd:
            return left, ""
        return left, f"Of ${self.dollars:g}, about {dollars_text(proof_usd)} is kept for {proof}."


def command_account(project: Project) -> Account:
    """The budget of one command for models and rollouts."""
    dollars = project.config.improve.budget.dollars
    return Account(dollars, name="The budget of one command", hint=RAISE)


def announced(step: str, calls: int, each_usd: float | None, *, at_most: bool = False) -> str:
    """Sentence on the model calls that a step will make; empty if they are few.

    Args:
        step: The step, as the subject of a sentence.
        calls: Number of calls.
        each_usd: Dollars of one; None if its price is unknown.
        at_most: Whether that is a bound, and not what such calls have cost.
    """
    if calls <= MANY_CALLS:
        return ""
    if each_usd is None:
        cost = "of unknown price"
    else:
        cost = f"for {'at most' if at_most else 'about'} {dollars_text(calls * each_usd)}"
    return f"{step} will make about {counted(calls, 'model call')}, {cost}."
