"""The coach: a chat client over an ensemble of models."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from ratchet.llm.call import (
    EMPTY,
    CoachCall,
    CoachSettings,
    EndpointState,
    configured_or_published,
)
from ratchet.llm.chat import COACH_STEP, CoachUnavailable, Message, Reply
from ratchet.llm.completion import CHARACTERS_A_TOKEN
from ratchet.llm.endpoint import endpoint_of
from ratchet.llm.ensemble import CoachModel, Ensemble
from ratchet.llm.litellm_transport import LitellmTransport
from ratchet.llm.prices import Usage
from ratchet.llm.sent import redacted_schema
from ratchet.llm.structured import AnswerSchema
from ratchet.llm.transport import OpenAITransport
from ratchet.observe.redaction import Redactor
from ratchet.types import ConfigError, InputError, Span, content_hash

CHECK_TOKENS, CHECK_RETRIES = 16, 2
"""Token limit and retries of the check request, which the user waits for."""

MAX_EMPTY = 3
"""Number of empty answers after which a model without any other answer is given up."""

OnSpans = Callable[[list[Span]], None]


class Coach:
    """Answers messages with an ensemble of models, which only get redacted text.

    The coach learns an endpoint's dialect from what the endpoint refuses: structured output by JSON
    schema, as a JSON object or by instruction only; the name of the token limit; temperatures. A
    malformed, empty or truncated answer is requested once more, with the problem stated.

    Args:
        models: The models; a plain name is a model of weight 1.
        base_url: Default endpoint, for models without one.
        key_env: Default environment variable of the key, for models without one.
        settings: Limits and sampling settings.
        seed: Seed of the ensemble's draws.
        environ: Environment that the keys are read from.
        redactor: Applied to all that is sent, and to the traces; all built-in rules when left
            out.
        agent: Agent name of its traces.
        on_spans: Called with the spans of each finished call, ready to be stored.
        notify: Called once with each message for the user, such as an unknown price.
        sleep: Waits for a number of seconds.
        clock: Monotonic seconds.
        rng: Source of the jitter of retries.

    Raises:
        ConfigError: The models are not a valid ensemble.
    """

    def __init__(
        self,
        models: str | Sequence[str | CoachModel],
        *,
        base_url: str | None = None,
        key_env: str | None = None,
        settings: CoachSettings | None = None,
        seed: int = 0,
        environ: Mapping[str, str] | None = None,
        redactor: Redactor | None = None,
        agent: str = "coach",
        on_spans: OnSpans | None = None,
        notify: Callable[[str], None] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        listed = [models] if isinstance(models, str) else models
        coach_models = [
            CoachModel(name=model) if isinstance(model, str) else model for model in listed
        ]
        self._ensemble = Ensemble(
            [
                msgspec.structs.replace(
                    model,
                    base_url=model.base_url or base_url,
                    key_env=key_env if model.key_env is None else model.key_env,
                )
                for model in coach_models
            ],
            seed,
        )
        self.settings = settings or CoachSettings()
        self._environ = os.environ if environ is None else environ
        self.redactor = redactor or Redactor()
        self.agent = agent
        self._on_spans = on_spans
        self._notify = notify or (lambda _: None)
        self.sleep = sleep
        self.clock = clock
        self.rng = rng or random.Random()  # noqa: S311
        self.slots = asyncio.Semaphore(self.settings.concurrency)
        self._states: dict[str, EndpointState] = {}
        self._unavailable: dict[str, CoachUnavailable] = {}
        self._notified: set[str] = set()
        self._calls = 0

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models."""
        return tuple(self._ensemble.models)

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        model: str | None = None,
    ) -> Reply:
        """See `ChatClient.ask`."""
        shape = None if schema is None else AnswerSchema(redacted_schema(schema, self.redactor))
        if model is not None:
            return await self._ask(self._named(model), messages, shape, temperature, max_tokens)
        about = content_hash([self._call_key(), [[m.role, m.content] for m in messages]])
        without: dict[str, CoachUnavailable] = dict(self._unavailable)
        while len(without) < len(self._ensemble.models):
            member = self._ensemble.draw(about, without)
            try:
                return await self._ask(member, messages, shape, temperature, max_tokens)
            except CoachUnavailable as error:
                without[member.name] = error
                if len(without) < len(self._ensemble.models):
                    self.notify_once(f"{error.message} The coach's other models are used instead.")
        raise next(reversed(without.values()))

    def most_usd(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        model: str | None = None,
    ) -> float | None:
        """The most that a request can cost in dollars; None if a price or the limit is unknown.

        Args:
            messages: The conversation.
            max_tokens: Maximum number of tokens of the answer; by default the model's or coach's.
            model: Name of the model; by default the dearest of those that may be drawn.
        """
        members = [self._named(model)] if model is not None else self._ensemble.models.values()
        sent = sum(len(message.content) for message in messages)
        return _largest([self._most_usd(member, sent, max_tokens) for member in members])

    def _most_usd(self, model: CoachModel, sent: int, max_tokens: int | None) -> float | None:
        limits = (max_tokens, model.max_tokens, self.settings.max_tokens)
        limit = next((bound for bound in limits if bound is not None), None)
        if limit is None:
            return None
        usage = Usage(input_tokens=-(-sent // CHARACTERS_A_TOKEN), output_tokens=limit)
        try:
            return configured_or_published(model, self._state(model).endpoint, (), usage)
        except (CoachUnavailable, ConfigError):
            return None  # the call itself will say so

    def credit(self, model: str, survived: bool) -> None:
        """See `ChatClient.credit`."""
        self._ensemble.credit(model, survived)

    def check_endpoints(self) -> None:
        """Check that each model has an address and a key, without a request.

        Raises:
            CoachUnavailable: One is missing.
        """
        for model in self._ensemble.models.values():
            self._state(model)

    async def check(self) -> list[Reply]:
        """Send each model a minimal request, to detect a wrong key or name early.

        Raises:
            CoachUnavailable: A model is not usable.
        """
        request = [Message(role="user", content="Answer with the word: ready")]
        self.check_endpoints()
        return await asyncio.gather(
            *(
                self._ask(model, request, None, None, CHECK_TOKENS, CHECK_RETRIES)
                for model in self._ensemble.models.values()
            )
        )

    async def close(self) -> None:
        """Close the connections."""
        for state in self._states.values():
            await state.transport.close()
        self._states.clear()

    async def __aenter__(self) -> Coach:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _call_key(self) -> str:
        """Key of a call: its step, which is the same in a resumed run, else a number."""
        self._calls += 1
        return COACH_STEP.get() or str(self._calls)

    def _named(self, name: str) -> CoachModel:
        model = self._ensemble.models.get(name)
        if model is None:
            raise InputError(
                f"The coach has no model {name!r}; it has {', '.join(self._ensemble.models)}.",
                hint="Name it under [coach] in ratchet.toml.",
            )
        return model

    def _state(self, model: CoachModel) -> EndpointState:
        if model.name in self._unavailable:
            raise self._unavailable[model.name]
        state = self._states.get(model.name)
        if state is None:
            endpoint = endpoint_of(model, self._environ)
            transport = LitellmTransport if endpoint.through == "litellm" else OpenAITransport
            state = self._states[model.name] = EndpointState(endpoint, transport(endpoint))
        return state

    async def _ask(
        self,
        model: CoachModel,
        messages: Sequence[Message],
        shape: AnswerSchema | None,
        temperature: float | None,
        max_tokens: int | None,
        retries: int | None = None,
    ) -> Reply:
        state = self._state(model)
        temperatures = (temperature, model.temperature, self.settings.temperature)
        limits = (max_tokens, model.max_tokens, self.settings.max_tokens)
        call = CoachCall(
            self,
            model,
            state,
            shape,
            temperature=next((setting for setting in temperatures if setting is not None), None),
            max_tokens=next((setting for setting in limits if setting is not None), None),
            retries=retries,
        )
        problem = ""
        try:
            reply = await call.run(messages)
            problem = reply.problem
            self._count_empty(model, state, reply)
            return reply
        except CoachUnavailable as error:
            problem = error.message
            if call.is_final:
                self._unavailable[model.name] = error
            raise
        except asyncio.CancelledError:
            problem = "It was cancelled."
            raise
        finally:
            if self._on_spans is not None:
                self._on_spans(call.record.spans(problem, self.redactor))

    def _count_empty(self, model: CoachModel, state: EndpointState, reply: Reply) -> None:
        """Give up a model that never says anything."""
        if reply.problem != EMPTY:
            state.empty = MAX_EMPTY + 1 if reply.text else state.empty
            return
        state.empty += 1
        if state.empty == MAX_EMPTY:
            self._unavailable[model.name] = CoachUnavailable(
                f"The {self.agent} is unavailable: {model.name!r} at {state.endpoint.shown} gave "
                f"{MAX_EMPTY} empty answers, each asked for twice, and no other.",
                hint="Use another model.",
            )

    def notify_once(self, sentence: str) -> None:
        if sentence not in self._notified:
            self._notified.add(sentence)
            self._notify(sentence)


def _largest(values: Sequence[float | None]) -> float | None:
    amounts = [value for value in values if value is not None]
    return max(amounts) if len(amounts) == len(values) else None
