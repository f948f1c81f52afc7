"""One coach call: a request, its retries, and one repair of a malformed answer."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from ratchet._waiting import WAITS
from ratchet.llm.backoff import delay
from ratchet.llm.chat import COACH_STEP, CoachUnavailable, Message, Reply
from ratchet.llm.completion import Completion, NotACompletion, read_completion
from ratchet.llm.dialect import EndpointDialect
from ratchet.llm.endpoint import Endpoint
from ratchet.llm.ensemble import CoachModel
from ratchet.llm.failures import RequestFailed, of_status, quote
from ratchet.llm.prices import Usage, dollars
from ratchet.llm.recording import CallRecord
from ratchet.llm.sent import redacted
from ratchet.llm.structured import AnswerSchema
from ratchet.llm.transport import ChatTransport, timed_out
from ratchet.observe.redaction import Redactor
from ratchet.types import Cost, total_cost
from ratchet.types.wording import counted

MAX_REPEATED = 6_000
"""How much of a malformed answer the repair request repeats, in characters."""


EMPTY = "The model's answer was empty."

MAX_SILENT = 2
"""Number of time-outs in a row after which an endpoint is given up, if it answered no other call
meanwhile."""


class CoachSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and sampling settings of a coach."""

    timeout_s: float = 120.0
    """Timeout of one attempt, in seconds."""
    total_s: float = 600.0
    """Timeout of one call in seconds, including all attempts and the delays between them."""
    retries: int = 6
    """Maximum retries of one request."""
    concurrency: int = 16
    """Maximum concurrent requests."""
    temperature: float | None = None
    """Sampling temperature; None for the model's own."""
    max_tokens: int | None = 16_000
    """Maximum number of tokens in an answer, including reasoning; None for no limit."""
    patient: bool = False
    """Whether later calls still try an endpoint that failed every try of a call."""


class CallContext(Protocol):
    """The state that calls share; implemented by the coach."""

    @property
    def agent(self) -> str: ...
    @property
    def settings(self) -> CoachSettings: ...
    @property
    def redactor(self) -> Redactor: ...
    @property
    def slots(self) -> asyncio.Semaphore: ...
    @property
    def rng(self) -> random.Random: ...
    @property
    def clock(self) -> Callable[[], float]: ...
    @property
    def sleep(self) -> Callable[[float], Awaitable[None]]: ...
    def notify_once(self, sentence: str) -> None:
        """Report a message; the same message is reported only once."""
        ...


class EndpointState:
    """A model's endpoint, its transport, and its state as observed so far."""

    def __init__(self, endpoint: Endpoint, transport: ChatTransport) -> None:
        self.endpoint = endpoint
        self.transport = transport
        self.dialect = EndpointDialect.of(endpoint.model, endpoint.host)
        self.answered = 0
        """Number of answers received."""
        self.empty = 0
        """Number of empty answers received before the first with any text."""
        self.opens_at = 0.0
        """Time, on the coach's clock, until which the endpoint asked to be sent no requests."""


class CoachCall:
    """One call: a request and, if the answer is malformed, a repair request."""

    def __init__(
        self,
        coach: CallContext,
        model: CoachModel,
        endpoint_state: EndpointState,
        shape: AnswerSchema | None,
        *,
        temperature: float | None,
        max_tokens: int | None,
        retries: int | None = None,
    ) -> None:
        self._coach = coach
        self._model = model
        self._state = endpoint_state
        self._shape = shape
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._retries = coach.settings.retries if retries is None else retries
        self.record = CallRecord(coach.agent, COACH_STEP.get())
        self.is_final = False
        """Whether the endpoint is permanently unusable."""
        self._clock = coach.clock
        self._since = self._clock()
        self._until = self._since + coach.settings.total_s
        self._paid: list[tuple[Completion, float | None]] = []

    async def run(self, messages: Sequence[Message]) -> Reply:
        """Run the call; a malformed answer is repaired once."""
        try:
            answer = await self._request(messages)
        except RequestFailed as failure:
            return self._failed(failure)
        data, problem, repair = self._read(answer)
        if problem and repair:
            try:
                second = await self._request(
                    [*messages, *_repair_messages(answer, problem, repair)]
                )
            except (RequestFailed, CoachUnavailable):
                pass  # the first answer was paid for: return it with its problem
            else:
                again = self._read(second)
                if not again[1] or second.text:
                    answer, (data, problem, _) = second, again
        return self._reply(answer.text, data, problem)

    def _read(self, answer: Completion) -> tuple[Any, str, str]:
        """Parse an answer; return its data, what is wrong with it, and a repair instruction."""
        limit = f" of {counted(self._max_tokens, 'token')}" if self._max_tokens else ""
        if answer.refusal:
            return None, f"The model refused: {_one_line(answer.refusal)}", ""
        if not answer.text:
            if answer.finish == "length":
                return None, f"The model used up its limit{limit} without answering.", ""
            return None, EMPTY, "Your answer was empty. Please answer."
        if self._shape is None:
            if answer.finish == "length":
                return None, f"The answer was cut off at the limit{limit}.", ""
            return None, "", ""
        data, wrong = self._shape.read(answer.text)
        if answer.finish == "length":
            wrong = f"it was cut off at the limit{limit}"
        if not wrong:
            return data, "", ""
        if self._state.dialect.format == "schema" and not self._state.dialect.in_words:
            # The endpoint accepts the schema but does not enforce it.
            self._state.dialect = msgspec.structs.replace(self._state.dialect, in_words=True)
        repair = (
            f"That is not the answer that was asked for: {wrong}. Answer again, briefly enough to"
            " be complete, with one JSON object that fits the schema and with nothing else."
        )
        return None, f"The answer does not fit its schema: {wrong}.", repair

    async def _request(self, messages: Sequence[Message]) -> Completion:
        """Send a redacted request and retry it until it is answered.

        Raises:
            RequestFailed: This request failed; others may succeed.
            CoachUnavailable: The endpoint does not answer.
        """
        sent = redacted(messages, self._coach.redactor)
        with WAITS.on(f"the {self._coach.agent}"):
            return await self._answered(sent)

    async def _answered(self, messages: Sequence[Message]) -> Completion:
        coach, state = self._coach, self._state
        answered, tries, adapted, silent = state.answered, 0, 0, 0
        while True:
            await self._gate()
            dialect = state.dialect
            body = dialect.body(
                state.endpoint.model, messages, self._shape, self._temperature, self._max_tokens
            )
            since_ns = time.time_ns()
            try:
                answer = await self._try(body, messages)
            except RequestFailed as failure:
                self.record.request(state.endpoint, body, since_ns, tries, failure)
                fallback = None
                if adapted < _MAX_ADAPTATIONS:
                    fallback = dialect.without_refused_feature(
                        body, failure.status, failure.server_message
                    )
                    if fallback is not None and state.dialect != dialect:
                        fallback = state.dialect  # another call has learned it meanwhile
                if fallback is not None:
                    state.dialect, adapted = fallback, adapted + 1
                    continue
                if failure.remedy == "never":
                    self.is_final = True
                    raise _unavailable(failure) from None
                if failure.remedy == "request":
                    # Before the first answer, the settings are at fault rather than this request.
                    if state.answered or not failure.hint:
                        raise
                    raise _unavailable(failure) from None
                tries += 1
                silent = silent + 1 if failure.kind == "timeout" else 0
                wait = delay(tries, failure.wait_s, coach.rng)
                dead = silent >= MAX_SILENT and state.answered == answered
                if dead or tries > self._retries or self._clock() + wait >= self._until:
                    if state.answered > answered and failure.status != 429:
                        raise  # others were answered meanwhile: this request is at fault
                    # Nobody was answered through all of this: the next would wait as long.
                    patient = coach.settings.patient
                    self.is_final = state.answered == answered and not patient
                    raise _unavailable(failure, tries) from None
                if failure.status in (429, 503):
                    state.opens_at = max(state.opens_at, self._clock() + wait)
                else:
                    await coach.sleep(wait)
                continue
            state.answered += 1
            WAITS.came(f"the {coach.agent}")
            cost = self._cost(answer)
            self._paid.append((answer, cost))
            self.record.request(state.endpoint, body, since_ns, tries, answer, cost)
            return answer

    async def _gate(self) -> None:
        """Wait as long as the endpoint asked clients to."""
        while (wait := self._state.opens_at - self._clock()) > 0:
            # Spread the requests that are waiting.
            await self._coach.sleep(wait * (1 + 0.1 * self._coach.rng.random()))

    async def _try(self, body: dict[str, Any], messages: Sequence[Message]) -> Completion:
        state, settings = self._state, self._coach.settings
        queued = self._clock()
        async with self._coach.slots:
            self._until += self._clock() - queued  # waiting for a slot does not count
            seconds = min(settings.timeout_s, max(0.05, self._until - self._clock()))
            try:
                async with asyncio.timeout(seconds):
                    raw = await state.transport.send(body, seconds)
            except TimeoutError:
                raise timed_out(state.endpoint, seconds) from None
        try:
            answer = read_completion(raw, sum(len(message.content) for message in messages))
        except NotACompletion as error:
            raise RequestFailed(
                f"{state.endpoint.model!r} at {state.endpoint.shown} returned something other"
                f" than a chat completion: {quote(state.endpoint, error)}",
                "again",
                hint="Check base_url under [coach]; it usually ends in /v1.",
                kind="no_completion",
            ) from None
        if answer.error is not None:
            code = answer.error.get("code")
            message = str(answer.error.get("message", ""))
            status = code if isinstance(code, int) and 400 <= code < 600 else 500
            text = msgspec.json.encode(answer.error).decode()
            raise of_status(state.endpoint, status, {}, text, message, time.time())
        return answer

    def _cost(self, answer: Completion) -> float | None:
        model, usage = self._model, answer.usage
        cost = answer.cost_usd
        if cost is None or has_own_price(model):
            cost = configured_or_published(model, self._state.endpoint, (answer.model,), usage)
        if cost is None:
            self._coach.notify_once(
                f"The price of the {self._coach.agent}'s model {model.name!r} is unknown, so its "
                "calls do not count towards the cost or a budget in dollars. To count them, set "
                "input_price and output_price."
            )
        if answer.estimated:
            self._coach.notify_once(
                f"{self._state.endpoint.shown} does not report token counts, so they are "
                "estimated from the number of characters."
            )
        return cost

    def _failed(self, failure: RequestFailed) -> Reply:
        return self._reply("", None, f"The request failed: {failure.sentence}")

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


_MAX_ADAPTATIONS = 6


def has_own_price(model: CoachModel) -> bool:
    """Whether the configuration states a price for the model."""
    return model.input_price is not None or model.output_price is not None


def configured_or_published(
    model: CoachModel, endpoint: Endpoint, names: Sequence[str], usage: Usage
) -> float | None:
    """Dollars of a call by its configured price, else by published prices; None if there are
    none.

    Published are the prices of the provider at that address, else OpenAI's for a model of that
    name, since company gateways resell those.

    Args:
        model: The model.
        endpoint: Where it is.
        names: Names that its answer reports.
        usage: Tokens of the call.
    """
    if has_own_price(model):
        input_cost = usage.input_tokens * (model.input_price or 0.0)
        output_cost = usage.output_tokens * (model.output_price or 0.0)
        return (input_cost + output_cost) / 1e6
    sellers = (endpoint.base_url, "openai") if endpoint.base_url else ("",)
    for seller in sellers:
        for name in dict.fromkeys((*names, endpoint.model)):
            usd = dollars(seller, name.removeprefix("openai/"), usage) if name else None
            usd = dollars(seller, name, usage) if usd is None and name else usd
            if usd is not None:
                return usd
    return None


def _unavailable(failure: RequestFailed, tries: int = 0) -> CoachUnavailable:
    after = f" It was tried {tries} times." if tries > 1 else ""
    sentence = failure.sentence.rstrip()
    sentence += "" if sentence.endswith((".", "!", "?")) else "."
    return CoachUnavailable(
        f"The coach is unavailable: {sentence}{after}", hint=failure.hint or None
    )


def _repair_messages(answer: Completion, problem: str, repair: str) -> list[Message]:
    excerpt = answer.text[:MAX_REPEATED]
    request = Message(role="user", content=repair)
    return [Message(role="assistant", content=excerpt), request] if excerpt else [request]


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else f"{line[:300]}…"
