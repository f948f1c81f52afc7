"""A lab's coach: its calls are charged to the budget and journaled, its answers kept count of."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeAlias

import msgspec

from ratchet.learn.budget import BudgetExhausted, BudgetLedger
from ratchet.learn.marks import restored
from ratchet.learn.run_journal import PartJournal
from ratchet.learn.work import texts_of
from ratchet.llm import (
    COACH_STEP,
    ChatClient,
    CoachUnavailable,
    Message,
    Reply,
    ask_paid,
    paid_from,
)
from ratchet.llm.hosted_model import HOSTED_MODEL
from ratchet.observe.redaction import Redactor
from ratchet.types import Candidate, content_hash

FailureKey: TypeAlias = frozenset[tuple[str, str, str, str]]
"""Failures: the resource, the task, the output and the error of each."""

LATE_ANSWERS_TIMEOUT_S = 10.0
"""Seconds to wait for answers that are no longer needed."""


class CoachQuestion(msgspec.Struct, frozen=True):
    """The request of a coach call."""

    messages: tuple[Message, ...]
    temperature: float | None = None
    model: str | None = None

    @property
    def digest(self) -> str:
        """Content hash; equal for identical requests."""
        request = [[m.role, m.content] for m in self.messages]
        return content_hash([request, self.temperature, self.model])


class PendingCoachCalls:
    """The coach calls of a lab that are in flight.

    A search that ends leaves drafts behind, and the calls made for them are charged regardless: so
    a call continues when its caller is cancelled, and the answer is journaled.
    """

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[Reply]] = set()

    async def finish(self, call: Coroutine[Any, Any, Reply]) -> Reply:
        """The reply to a call, which runs to completion even if the caller is cancelled."""
        task = asyncio.create_task(call)
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def settle(self) -> None:
        """Wait up to `LATE_ANSWERS_TIMEOUT_S` for calls in flight; cancel the rest."""
        if not self._under_way:
            return
        _, late = await asyncio.wait(self._under_way, timeout=LATE_ANSWERS_TIMEOUT_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Reply]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved: it reaches the waiter, if any


class _CoachRecord:
    """What all parts of a run know of their coach."""

    def __init__(self) -> None:
        self.calls = PendingCoachCalls()
        self.lost: CoachUnavailable | None = None
        self.last_unusable = ""
        """Why its last unusable answer could not be used."""
        self.is_usable = False
        """Whether any answer could be used."""
        self.asked: set[FailureKey] = set()
        self.is_asked_plainly = False
        self.has_rewritten = False


class LabCoach:
    """The coach of a lab, or of a part of it: its calls are charged and journaled.

    Args:
        client: The model; without one, every call raises.
        journal: The part's journal.
        ledger: The part's ledger.
        baseline: The part's baseline, whose texts the coach may be shown with marks of redaction.
        redactor: What requests are redacted by.
        guidelines: What the owner tells the coach: tone, domain, what must stay.
    """

    def __init__(
        self,
        client: ChatClient | None,
        *,
        journal: PartJournal,
        ledger: BudgetLedger,
        baseline: Candidate,
        redactor: Redactor,
        guidelines: str = "",
    ) -> None:
        self._client = client
        self._journal = journal
        self._ledger = ledger
        self._baseline = baseline
        self._redactor = redactor
        self.guidelines = guidelines
        """The owner's instructions for the coach."""
        self._record = _CoachRecord()

    def within(self, journal: PartJournal, ledger: BudgetLedger, baseline: Candidate) -> LabCoach:
        """The same coach for a part of the lab."""
        part = copy.copy(self)
        part._journal, part._ledger, part._baseline = journal, ledger, baseline
        return part

    @property
    def is_configured(self) -> bool:
        """Whether there is a model to call."""
        return self._client is not None

    @property
    def is_asked_plainly(self) -> bool:
        """Whether it gets plain requests for prompts, since it cannot answer whole ones."""
        return self._record.is_asked_plainly

    def ask_plainly(self) -> None:
        """Send it plain requests from now on, unless it has answered a whole one."""
        self._record.is_asked_plainly = not self._record.has_rewritten

    @property
    def asked(self) -> set[FailureKey]:
        """Sets of failures that the coach has been asked about, in any part of the run."""
        return self._record.asked

    @property
    def why_useless(self) -> CoachUnavailable | None:
        """Why the coach is of no use: it is unavailable, or no answer of it could be used."""
        record = self._record
        if record.lost is None and record.last_unusable and not record.is_usable:
            last = record.last_unusable.rstrip(".")
            return CoachUnavailable(
                f"The coach answered, but none of its answers could be used (the last: {last}).",
                hint="Name another model under [coach] in ratchet.toml, and search again: "
                "ratchet improve --seed 1.",
            )
        return record.lost

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        step: str,
        temperature: float | None = None,
        model: str | None = None,
    ) -> Reply:
        """Call the coach. A call that was already paid for is answered from the journal.

        Marks of redaction in its text are replaced where they stand for a text of the agent's own.

        Args:
            messages: The conversation so far. It must contain no data of held-out tasks.
            step: Name of the call, unique in the run and stable across resumption.
            temperature: Sampling temperature.
            model: Model of the ensemble by name; by default the ensemble selects one.

        Raises:
            BudgetExhausted: The dollars or coach calls are spent; no call was made.
            CoachUnavailable: No coach is configured, or it cannot be reached.
        """
        question = CoachQuestion(tuple(messages), temperature, model)
        reply = await self._answer(question, step)
        texts = [message.content for message in messages]
        own = texts_of(self._baseline.resources).values()
        return msgspec.structs.replace(reply, text=restored(reply.text, texts, own, self._redactor))

    async def _answer(self, question: CoachQuestion, step: str) -> Reply:
        """The coach's raw reply: from the journal, or from a new call."""
        key = f"{self._journal.key('coach', step)}/{question.digest}"
        journaled = await self._journal.get(key)
        if journaled is not None:
            reply = msgspec.convert(journaled, Reply)
            if self._ledger.fresh([key]):  # counted in this run's budget, without another call
                self._ledger.take_call(key)
                self._ledger.pay([reply.cost])
            return reply
        await self._journal.run.flush()
        try:
            reply = await self._record.calls.finish(self._call(question, step, key))
        except CoachUnavailable as error:
            self._record.lost = error
            raise
        self._ledger.note_end("coach call", time.time())
        self._record.lost = None
        return reply

    async def _call(self, question: CoachQuestion, step: str, key: str) -> Reply:
        """Call the model, charge the cost, and journal the reply."""
        if self._client is None:
            raise CoachUnavailable(
                "This algorithm needs a coach model, and none is configured.",
                hint=f'Name one under [coach] in ratchet.toml: model = "{HOSTED_MODEL}".',
            )
        reached = self._ledger.refusal(coach_calls=1)
        if reached:
            raise BudgetExhausted(f"Another coach call would exceed the budget: {reached}.")
        self._ledger.take_call(key)
        asking = COACH_STEP.set(step)
        try:
            with paid_from(self._ledger.account):
                reply = await ask_paid(
                    self._client,
                    question.messages,
                    kind="coach",
                    temperature=question.temperature,
                    model=question.model,
                )
        except BaseException:
            self._ledger.give_back_call(key)
            raise
        finally:
            COACH_STEP.reset(asking)
        # Before any await: a cancellation from here on must not lose the reply.
        self._journal.append(key, msgspec.to_builtins(reply))
        # A reply that a kill could lose, and so charge twice, must not be used.
        await self._journal.run.flush()
        return reply

    async def settle(self) -> None:
        """Wait for calls in flight that are no longer needed: they are charged."""
        await self._record.calls.settle()
        await self._journal.run.flush()

    def credit(self, reply: Reply, survived: bool) -> None:
        """Record whether a reply's proposal survived; the ensemble prefers models whose proposals
        do."""
        if self._client is not None and reply.model:
            self._client.credit(reply.model, survived)

    def usable(self) -> None:
        """Record that an answer could be used, even if it changes nothing."""
        self._record.is_usable = True

    def rewrote(self) -> None:
        """Record that an answer could be made into a candidate."""
        self._record.is_usable = self._record.has_rewritten = True

    def unusable(self, step: str, why: str) -> None:
        """Journal why an answer could not be made into a candidate.

        Args:
            step: Name of the answer, unique in the run and stable across resumption.
            why: The reason, as a sentence.
        """
        self._journal.append(self._journal.key("unusable", step), why)
        self._record.last_unusable = why

    def redacted(self, text: str) -> str:
        """A text as the coach may see it, safe to cut afterwards."""
        return self._redactor.text(text)
