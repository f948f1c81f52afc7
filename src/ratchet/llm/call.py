"""One call of a coach: a request, tries until it is answered, a repair of what does not fit."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from ratchet.llm.backoff import delay
from ratchet.llm.chat import STEP, CoachUnavailable, Message, Reply
from ratchet.llm.completion import Completion, NotACompletion, read_completion
from ratchet.llm.dialect import EndpointDialect
from ratchet.llm.endpoint import Endpoint
from ratchet.llm.ensemble import CoachModel
from ratchet.llm.failures import RequestFailed, of_status, quote
from ratchet.llm.prices import Usage, dollars
from ratchet.llm.recording import CallRecord
from ratchet.llm.structured import AnswerSchema
from ratchet.llm.transport import ChatTransport, timed_out
from ratchet.types import Cost, total_cost

MOST_SHOWN = 6_000
"""Characters of a malformed answer that the model is shown again."""


class CoachSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a coach asks."""

    timeout_s: float = 120.0
    """Seconds of one try."""
    total_s: float = 600.0
    """Seconds of one call, with all tries and the waiting between them."""
    retries: int = 6
    """How often a request is tried again."""
    concurrency: int = 16
    """Requests at once."""
    temperature: float | None = None
    """Of sampling; the model's own when None."""
    max_tokens: int | None = 16_000
    """Of one answer, thoughts included; no limit when None."""


class CallContext(Protocol):
    """What calls share; a coach."""

    @property
    def settings(self) -> CoachSettings: ...
    @property
    def slots(self) -> asyncio.Semaphore: ...
    @property
    def chance(self) -> random.Random: ...
    @property
    def clock(self) -> Callable[[], float]: ...
    @property
    def sleep(self) -> Callable[[float], Awaitable[None]]: ...
    def tell(self, sentence: str) -> None:
        """Say something once."""
        ...


class EndpointState:
    """What is known of a model at its endpoint."""

    def __init__(self, place: Endpoint, line: ChatTransport) -> None:
        self.place = place
        self.line = line
        self.dialect = EndpointDialect.of(place.model, place.host)
        self.answered = 0
        """Answers that came."""
        self.opens_at = 0.0
        """When requests may go out again, by the coach's clock: it asked to wait."""


class CoachCall:
    """One call on its way: a request, perhaps a repair."""

    def __init__(
        self,
        coach: CallContext,
        model: CoachModel,
        desk: EndpointState,
        shape: AnswerSchema | None,
        *,
        temperature: float | None,
        max_tokens: int | None,
        retries: int | None = None,
    ) -> None:
        self._coach = coach
        self._model = model
        self._desk = desk
        self._shape = shape
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._retries = coach.settings.retries if retries is None else retries
        self.record = CallRecord(STEP.get())
        self.is_final = False
        """Whether nobody need be asked there again."""
        self._clock = coach.clock
        self._since = self._clock()
        self._until = self._since + coach.settings.total_s
        self._paid: list[tuple[Completion, float | None]] = []

    async def run(self, messages: Sequence[Message]) -> Reply:
        """The reply; one repair is tried."""
        try:
            answer = await self._request(messages)
        except RequestFailed as trouble:
            return self._no_answer(trouble)
        data, problem, mend = self._read(answer)
        if problem and mend:
            try:
                second = await self._request([*messages, *_mending(answer, problem, mend)])
            except (RequestFailed, CoachUnavailable):
                pass  # what was paid for is kept, with its problem
            else:
                again = self._read(second)
                if not again[1] or second.text:
                    answer, (data, problem, _) = second, again
        return self._reply(answer.text, data, problem)

    def _read(self, answer: Completion) -> tuple[Any, str, str]:
        """What an answer holds, what is wrong with it, and how the model is told to mend that."""
        limit = f" of {self._max_tokens} tokens" if self._max_tokens else ""
        if answer.refusal:
            return None, f"The model refused: {_line(answer.refusal)}", ""
        if not answer.text:
            if answer.finish == "length":
                return None, f"The model spent its limit{limit} without an answer.", ""
            return None, "The model's answer was empty.", "Your answer was empty. Please answer."
        if self._shape is None:
            if answer.finish == "length":
                return None, f"The answer was cut at the limit{limit}.", ""
            return None, "", ""
        data, wrong = self._shape.read(answer.text)
        if answer.finish == "length":
            wrong = f"it was cut at the limit{limit}"
        if not wrong:
            return data, "", ""
        if self._desk.dialect.format == "schema" and not self._desk.dialect.in_words:
            # The endpoint took the schema and did not hold the model to it.
            self._desk.dialect = msgspec.structs.replace(self._desk.dialect, in_words=True)
        mend = (
            f"That is not the answer that was asked for: {wrong}. Answer again, briefly enough to"
            " be complete, with one JSON object that fits the schema and with nothing else."
        )
        return None, f"The answer does not fit its schema: {wrong}.", mend

    async def _request(self, messages: Sequence[Message]) -> Completion:
        """One answer, asked for as often as it takes.

        Raises:
            Trouble: This request has no answer; others may have one.
            CoachUnavailable: Nobody answers there.
        """
        coach, desk = self._coach, self._desk
        answered, tries, adapted = desk.answered, 0, 0
        while True:
            await self._gate()
            dialect = desk.dialect
            body = dialect.body(
                desk.place.model, messages, self._shape, self._temperature, self._max_tokens
            )
            since_ns = time.time_ns()
            try:
                answer = await self._try(body, messages)
            except RequestFailed as trouble:
                self.record.request(desk.place, body, since_ns, tries, trouble)
                other = None
                if adapted < _MOST_ADAPTED:
                    other = dialect.without_what_was_refused(body, trouble.status, trouble.said)
                    if other is not None and desk.dialect != dialect:
                        other = desk.dialect  # another call has learned it meanwhile
                if other is not None:
                    desk.dialect, adapted = other, adapted + 1
                    continue
                if trouble.then == "never":
                    self.is_final = True
                    raise _unavailable(trouble) from None
                if trouble.then == "request":
                    # Where nothing was ever answered it is not this request that is wrong.
                    if desk.answered or not trouble.hint:
                        raise
                    raise _unavailable(trouble) from None
                tries += 1
                wait = delay(tries, trouble.wait_s, coach.chance)
                if tries > self._retries or self._clock() + wait >= self._until:
                    if desk.answered > answered and trouble.status != 429:
                        raise  # others were answered meanwhile: it is this request
                    raise _unavailable(trouble, tries) from None
                if trouble.status in (429, 503):
                    desk.opens_at = max(desk.opens_at, self._clock() + wait)
                else:
                    await coach.sleep(wait)
                continue
            desk.answered += 1
            cost = self._cost(answer)
            self._paid.append((answer, cost))
            self.record.request(desk.place, body, since_ns, tries, answer, cost)
            return answer

    async def _gate(self) -> None:
        """Wait while the endpoint asked everybody to."""
        while (wait := self._desk.opens_at - self._clock()) > 0:
            # Not all at once when it opens.
            await self._coach.sleep(wait * (1 + 0.1 * self._coach.chance.random()))

    async def _try(self, body: dict[str, Any], messages: Sequence[Message]) -> Completion:
        desk, settings = self._desk, self._coach.settings
        queued = self._clock()
        async with self._coach.slots:
            self._until += self._clock() - queued  # others' calls do not use up this one's time
            seconds = min(settings.timeout_s, max(0.05, self._until - self._clock()))
            try:
                async with asyncio.timeout(seconds):
                    raw = await desk.line.send(body, seconds)
            except TimeoutError:
                raise timed_out(desk.place, seconds) from None
        try:
            answer = read_completion(raw, sum(len(message.content) for message in messages))
        except NotACompletion as error:
            raise RequestFailed(
                f"{desk.place.model!r} at {desk.place.shown} answered with something that is no"
                f" chat completion: {quote(desk.place, error)}",
                "again",
                hint="Check base_url under [coach]; it usually ends in /v1.",
                kind="no_completion",
            ) from None
        if answer.error is not None:
            code = answer.error.get("code")
            said = str(answer.error.get("message", ""))
            status = code if isinstance(code, int) and 400 <= code < 600 else 500
            text = msgspec.json.encode(answer.error).decode()
            raise of_status(desk.place, status, {}, text, said, time.time())
        return answer

    def _cost(self, answer: Completion) -> float | None:
        model, usage = self._model, answer.usage
        if model.input_price is not None or model.output_price is not None:
            given = usage.input_tokens * (model.input_price or 0.0)
            made = usage.output_tokens * (model.output_price or 0.0)
            return (given + made) / 1e6
        if answer.cost_usd is not None:
            return answer.cost_usd
        known = _published(self._desk.place, answer, usage)
        if known is None:
            self._coach.tell(
                f"Nobody publishes a price of the coach's model {model.name!r}: what its calls cost"
                " is not measured, and a budget in dollars cannot count them. Set input_price and"
                " output_price under [coach] to count them."
            )
        if answer.estimated:
            self._coach.tell(
                f"{self._desk.place.shown} does not say how many tokens a call takes: they are"
                " estimated from the characters."
            )
        return known

    def _no_answer(self, trouble: RequestFailed) -> Reply:
        return self._reply("", None, f"There is no answer: {trouble.sentence}")

    def _reply(self, text: str, data: Any, problem: str) -> Reply:
        return Reply(
            text=text,
            data=data,
            problem=problem,
            model=self._model.name,
            input_tokens=sum(answer.usage.input_tokens for answer, _ in self._paid),
            output_tokens=sum(answer.usage.output_tokens for answer, _ in self._paid),
            cost_usd=total_cost(Cost.of(cost) for _, cost in self._paid).usd,
            seconds=self._clock() - self._since,
            requests=len(self._paid),
        )


_MOST_ADAPTED = 6


def _published(place: Endpoint, answer: Completion, usage: Usage) -> float | None:
    """Dollars by the provider at that address, else by OpenAI for a model that it has, which
    companies' own gateways sell on."""
    sellers = (place.base_url, "openai") if place.base_url else ("",)
    for seller in sellers:
        for name in dict.fromkeys((answer.model, place.model)):
            found = dollars(seller, name.removeprefix("openai/"), usage) if name else None
            found = dollars(seller, name, usage) if found is None and name else found
            if found is not None:
                return found
    return None


def _unavailable(trouble: RequestFailed, tries: int = 0) -> CoachUnavailable:
    after = f" It was tried {tries} times." if tries > 1 else ""
    said = trouble.sentence.rstrip()
    said += "" if said.endswith((".", "!", "?")) else "."
    return CoachUnavailable(f"The coach cannot be asked: {said}{after}", hint=trouble.hint or None)


def _mending(answer: Completion, problem: str, mend: str) -> list[Message]:
    shown = answer.text[:MOST_SHOWN]
    asked = Message(role="user", content=mend)
    return [Message(role="assistant", content=shown), asked] if shown else [asked]


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else f"{line[:300]}…"
