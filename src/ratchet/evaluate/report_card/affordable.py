"""Checks that the remaining budget pays for a report card's remaining model calls."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from ratchet.evaluate.failures import attempted
from ratchet.evaluate.judges.outlook import AnswersOutlook
from ratchet.llm import ACCOUNT, Account
from ratchet.types import BudgetExhausted, Rollout, dollars_text
from ratchet.worker.evaluator import Evaluator, SpansOf

ROUNDING = 1e-9
"""Tolerated rounding error of a sum of prices, in dollars."""


class PlannedScore(NamedTuple):
    """A score that a report card needs."""

    evaluator: Evaluator
    rollout: Rollout
    spans_of: SpansOf


async def check_affordable(evaluator: Evaluator, planned: Sequence[PlannedScore]) -> None:
    """Refuse a report card whose calls cost more than is left, estimated from stored answers.

    Nothing is refused while no answer tells what a call costs.

    Raises:
        BudgetExhausted: The calls that are left cost more than the budget's rest.
    """
    account = _scarcest(evaluator)
    if account is None or account.left == math.inf:
        return
    outlook = await _outlook(planned)
    stored, missing = len(outlook.stored), len(outlook.missing)
    takes, left = missing * (outlook.each_usd or 0.0), max(0.0, account.left)
    if takes <= left + ROUNDING:
        return
    raise BudgetExhausted(
        f"There is no report card of {evaluator.name!r}: {stored} of {stored + missing} answers "
        f"are stored; the other {missing} cost about {dollars_text(takes)}, but "
        f"{dollars_text(left)} is left. Paid answers are kept.",
        hint=f"{account.hint or 'Raise its dollars.'} About {dollars_text(takes - left)} more is"
        " needed.",
    )


@asynccontextmanager
async def telling_calls_left(
    evaluator: Evaluator, planned: Sequence[PlannedScore]
) -> AsyncIterator[None]:
    """Add the number of remaining model calls to the error if the budget ends within the
    context."""
    account = _scarcest(evaluator)
    try:
        yield
    except BudgetExhausted as error:
        missing = len((await _outlook(planned)).missing)
        if account is None or not missing or error.message.startswith("There is no report card"):
            raise
        raise BudgetExhausted(
            f"There is no report card of {evaluator.name!r}: {error.message} Run the same"
            f" command again to make the remaining calls, about {missing}.",
            hint=error.hint,
        ) from None


def _scarcest(evaluator: Evaluator) -> Account | None:
    """The account with the least left among those that pay for an evaluator's calls."""
    own: Account | None = getattr(evaluator, "account", None)
    accounts = [account for account in (own, ACCOUNT.get()) if account is not None]
    asks = hasattr(evaluator, "foreseen")
    return min(accounts, key=lambda account: account.left, default=None) if asks else None


async def _outlook(planned: Sequence[PlannedScore]) -> AnswersOutlook:
    outlook = AnswersOutlook()
    for evaluator, rollout, spans_of in planned:
        foreseen = getattr(evaluator, "foreseen", None)
        if foreseen is not None:
            await attempted(foreseen(outlook), rollout, spans_of)
    return outlook
