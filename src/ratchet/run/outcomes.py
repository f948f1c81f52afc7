"""Reports: outcomes on their way into the store, in groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from ratchet.observe.dialects import normalise
from ratchet.run.transport import FinishResults, RunnerTransport
from ratchet.types import Claim, Outcome, Span
from ratchet.types.trace import CALLS

if TYPE_CHECKING:
    from ratchet.observe.redaction import Redactor

Batch: TypeAlias = Sequence[tuple[Claim, Outcome]]

Prepare: TypeAlias = Callable[[Outcome], Outcome]
"""Makes of an outcome what is to be stored; twice is as good as once."""

OnReported = Callable[[Batch, FinishResults], Awaitable[None]]

GATHER_S = 0.005
"""How long an outcome waits for others to share its transaction, at most."""


class OutcomeBatcher:
    """Stores outcomes: while one transaction is under way, the next batch gathers.

    Args:
        line: Where they go.
        on_reported: Awaited with each batch, as it was stored, and what became of it.
        prepare: What is done to each outcome before; in a thread, since agents run in this one.
    """

    def __init__(
        self, line: RunnerTransport, on_reported: OnReported, *, prepare: Prepare | None = None
    ) -> None:
        self._line = line
        self._on_reported = on_reported
        self._prepare = prepare
        self._waiting: list[tuple[Claim, Outcome]] = []
        self._under_way = False
        self._gather_s = GATHER_S
        self._more = asyncio.Event()

    @property
    def pending(self) -> bool:
        """Whether an outcome is not in the store yet."""
        return bool(self._waiting) or self._under_way

    @property
    def waiting(self) -> set[str]:
        """Rollouts whose outcomes wait for the next transaction."""
        return {claim.rollout.id for claim, _ in self._waiting}

    def add(self, claim: Claim, outcome: Outcome, typical_s: float) -> None:
        """Have an outcome stored.

        Args:
            claim: The attempt.
            outcome: How it ended.
            typical_s: How long attempts take: quick ones wait less for others.
        """
        self._waiting.append((claim, outcome))
        self._gather_s = min(GATHER_S, typical_s / 10)
        self._more.set()

    async def run(self) -> None:
        """Store what comes, until cancelled.

        Raises:
            StoreError: The store cannot be written; `flush` tries once more.
        """
        while True:
            await self._more.wait()
            await asyncio.sleep(self._gather_s)
            await self.flush()

    async def flush(self) -> None:
        """Store what waits. When it is cancelled, what is under way is stored first.

        Raises:
            StoreError: The store cannot be written; what waits is kept.
        """
        self._more.clear()
        if not self._waiting:
            return
        batch, self._waiting = self._waiting, []
        self._under_way = True
        storing = asyncio.ensure_future(self._store(batch))
        try:
            await asyncio.shield(storing)
        except asyncio.CancelledError:
            await storing
            raise

    async def _store(self, batch: list[tuple[Claim, Outcome]]) -> None:
        try:
            if self._prepare is not None:
                batch = await asyncio.to_thread(_prepared, batch, self._prepare)
            answers = await self._line.finish([outcome for _, outcome in batch])
        except BaseException:
            self._waiting = batch + self._waiting
            raise
        finally:
            self._under_way = False
        await self._on_reported(batch, answers)


def _prepared(batch: Batch, prepare: Prepare) -> list[tuple[Claim, Outcome]]:
    return [(claim, prepare(outcome)) for claim, outcome in batch]


def preparation(redactor: Redactor | None, *, for_store: bool) -> Callable[[Outcome], Outcome]:
    """What is done to each outcome on its way: told, and redacted.

    Args:
        redactor: Whose rules hold.
        for_store: Whether it goes straight into a store: then all built-in rules hold where there
            is no redactor. A server redacts by itself.
    """
    if redactor is None and for_store:
        # Much of a worker's start would go by importing it.
        from ratchet.observe.redaction import Redactor

        redactor = Redactor()
    if redactor is None:
        return normalised
    redact = redactor.outcome
    return lambda outcome: redact(normalised(outcome))


def normalised(outcome: Outcome) -> Outcome:
    """The same outcome, with its spans normalised and its model calls priced.

    Args:
        outcome: As an executor reports it. A span that says its cost keeps it.
    """
    if not outcome.spans:
        return outcome
    spans = tuple(_priced(_normalised(span)) for span in outcome.spans)
    if all(new is old for new, old in zip(spans, outcome.spans, strict=True)):
        return outcome
    return msgspec.structs.replace(outcome, spans=spans)


def _normalised(span: Span) -> Span:
    attributes = normalise(span.name, span.attributes, span.events)
    if attributes is span.attributes:
        return span
    return msgspec.structs.replace(span, attributes=attributes)


def _priced(span: Span) -> Span:
    if not _has_usage(span):
        return span
    from ratchet.llm import with_price  # forty megabytes of prices, for agents that call models

    return with_price(span)


def records_calls(outcome: Outcome) -> bool:
    """Whether a span of the outcome records a model call."""
    return any(
        "ratchet.cost_usd" in span.attributes
        or _has_usage(span)
        or str(span.attributes.get("gen_ai.operation.name")) in CALLS
        for span in outcome.spans
    )


def _has_usage(span: Span) -> bool:
    return any(name.startswith("gen_ai.usage.") for name in span.attributes)
