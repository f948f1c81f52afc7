"""Stores outcomes in batches, normalised and redacted."""

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
"""Transforms an outcome before it is stored; idempotent."""

OnReported = Callable[[Batch, FinishResults], Awaitable[None]]

GATHER_S = 0.005
"""Longest time that an outcome waits for others to share its transaction."""


class OutcomeBatcher:
    """Stores outcomes in batches: while one is being written, the next is collected.

    Args:
        transport: Destination of the outcomes.
        on_reported: Awaited with each batch, as stored, and its results.
        prepare: Applied to each outcome first; in a thread, since agents run in this one.
    """

    def __init__(
        self, transport: RunnerTransport, on_reported: OnReported, *, prepare: Prepare | None = None
    ) -> None:
        self._transport = transport
        self._on_reported = on_reported
        self._prepare = prepare
        self._waiting: list[tuple[Claim, Outcome]] = []
        self._under_way = False
        self._gather_s = GATHER_S
        self._more = asyncio.Event()

    @property
    def pending(self) -> bool:
        """Whether some outcomes are not in the store yet."""
        return bool(self._waiting) or self._under_way

    @property
    def waiting(self) -> set[str]:
        """Ids of the rollouts whose outcomes wait for the next batch."""
        return {claim.rollout.id for claim, _ in self._waiting}

    def add(self, claim: Claim, outcome: Outcome, typical_s: float) -> None:
        """Add an outcome to the next batch.

        Args:
            claim: The attempt.
            outcome: Its outcome.
            typical_s: Typical duration of attempts: the shorter, the less an outcome waits.
        """
        self._waiting.append((claim, outcome))
        self._gather_s = min(GATHER_S, typical_s / 10)
        self._more.set()

    async def run(self) -> None:
        """Store outcomes as they are added, until cancelled.

        Raises:
            StoreError: The store cannot be written; `flush` may retry.
        """
        while True:
            await self._more.wait()
            await asyncio.sleep(self._gather_s)
            await self.flush()

    async def flush(self) -> None:
        """Store the current batch. A cancellation takes effect after it is stored.

        Raises:
            StoreError: The store cannot be written; the batch is retained.
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
            answers = await self._transport.finish([outcome for _, outcome in batch])
        except BaseException:
            self._waiting = batch + self._waiting
            raise
        finally:
            self._under_way = False
        await self._on_reported(batch, answers)


def _prepared(batch: Batch, prepare: Prepare) -> list[tuple[Claim, Outcome]]:
    return [(claim, prepare(outcome)) for claim, outcome in batch]


def preparation(redactor: Redactor | None, *, for_store: bool) -> Callable[[Outcome], Outcome]:
    """The function that normalises, prices and redacts each outcome.

    Args:
        redactor: Redactor to apply.
        for_store: Whether outcomes go directly to a store: then all built-in rules are the default
            redactor. A server redacts by itself.
    """
    if redactor is None and for_store:
        # Imported late: it would take much of a worker's start.
        from ratchet.observe.redaction import Redactor

        redactor = Redactor()
    if redactor is None:
        return normalised
    redact = redactor.outcome
    return lambda outcome: redact(normalised(outcome))


def normalised(outcome: Outcome) -> Outcome:
    """Normalise an outcome's spans and price its model calls.

    Args:
        outcome: As an executor reports it. A span that has a cost keeps it.
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
    from ratchet.llm import with_price  # loads 40 MB of prices

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
