"""The coach: models that are asked, the ones whose proposals survive more often."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from ratchet.llm.call import CoachCall, CoachSettings, EndpointState
from ratchet.llm.chat import STEP, CoachUnavailable, Message, Reply
from ratchet.llm.endpoint import endpoint_of
from ratchet.llm.ensemble import CoachModel, Ensemble
from ratchet.llm.litellm_transport import LitellmTransport
from ratchet.llm.structured import AnswerSchema
from ratchet.llm.transport import OpenAITransport
from ratchet.types import InputError, Span, content_hash

CHECK_TOKENS, CHECK_RETRIES = 16, 2
"""Of the question whether a model is there: a person waits for the answer."""

Hear = Callable[[list[Span]], None]


class Coach:
    """Answers messages by an ensemble of models.

    An endpoint's quirks are learned from what it refuses: structured output by schema, as any JSON
    object or in words alone, the name of the limit of tokens, temperatures. An answer that is
    malformed, empty or cut is asked for once more, with what was wrong.

    Args:
        models: The models; a name alone is a model with weight 1.
        base_url: Of the endpoint of those that name none.
        key_env: Variable that holds the key of those that name none.
        settings: How it asks.
        seed: Of the ensemble's draws.
        environ: Where the keys are.
        hear: Told the spans of each call as it ends.
        say: Told once of what a person should know, such as a price that nobody publishes.
        sleep: Waits so many seconds.
        clock: Seconds, from any beginning, never going back.
        chance: Where the jitter of waiting comes from.

    Raises:
        ConfigError: The models do not make an ensemble.
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
        hear: Hear | None = None,
        say: Callable[[str], None] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
    ) -> None:
        named = [models] if isinstance(models, str) else models
        made = [CoachModel(name=each) if isinstance(each, str) else each for each in named]
        self._ensemble = Ensemble(
            [
                msgspec.structs.replace(
                    each,
                    base_url=each.base_url or base_url,
                    key_env=key_env if each.key_env is None else each.key_env,
                )
                for each in made
            ],
            seed,
        )
        self.settings = settings or CoachSettings()
        self._environ = os.environ if environ is None else environ
        self._hear = hear
        self._say = say or (lambda _: None)
        self.sleep = sleep
        self.clock = clock
        self.chance = chance or random.Random()  # noqa: S311
        self.slots = asyncio.Semaphore(self.settings.concurrency)
        self._desks: dict[str, EndpointState] = {}
        self._gone: dict[str, CoachUnavailable] = {}
        self._told: set[str] = set()
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
        """As `Asks.ask`."""
        shape = None if schema is None else AnswerSchema(schema)
        if model is not None:
            return await self._ask(self._named(model), messages, shape, temperature, max_tokens)
        about = content_hash([self._occasion(), [[m.role, m.content] for m in messages]])
        without: dict[str, CoachUnavailable] = dict(self._gone)
        while len(without) < len(self._ensemble.models):
            drawn = self._ensemble.draw(about, without)
            try:
                return await self._ask(drawn, messages, shape, temperature, max_tokens)
            except CoachUnavailable as error:
                without[drawn.name] = error
                if len(without) < len(self._ensemble.models):
                    self.tell(f"{error.message} Other models of the coach are asked instead.")
        raise next(reversed(without.values()))

    def credit(self, model: str, survived: bool) -> None:
        """As `Asks.credit`."""
        self._ensemble.credit(model, survived)

    def check_places(self) -> None:
        """See that each model has an address and a key, without a request.

        Raises:
            CoachUnavailable: One has none.
        """
        for model in self._ensemble.models.values():
            self._desk(model)

    async def check(self) -> list[Reply]:
        """Ask each model one cheap thing, to hear now of a key or a name that is wrong.

        Raises:
            CoachUnavailable: One of them cannot be asked.
        """
        hello = [Message(role="user", content="Answer with the word: ready")]
        self.check_places()
        return await asyncio.gather(
            *(
                self._ask(each, hello, None, None, CHECK_TOKENS, CHECK_RETRIES)
                for each in self._ensemble.models.values()
            )
        )

    async def close(self) -> None:
        """Let go of connections."""
        for desk in self._desks.values():
            await desk.line.close()
        self._desks.clear()

    async def __aenter__(self) -> Coach:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _occasion(self) -> str:
        """What tells one call from another of the same messages: a lab names each, and the same
        again when a run is resumed; else they are counted."""
        self._calls += 1
        return STEP.get() or str(self._calls)

    def _named(self, name: str) -> CoachModel:
        found = self._ensemble.models.get(name)
        if found is None:
            raise InputError(
                f"The coach has no model {name!r}; it has {', '.join(self._ensemble.models)}.",
                hint="Name it under [coach] in ratchet.toml.",
            )
        return found

    def _desk(self, model: CoachModel) -> EndpointState:
        if model.name in self._gone:
            raise self._gone[model.name]
        desk = self._desks.get(model.name)
        if desk is None:
            place = endpoint_of(model, self._environ)
            line = LitellmTransport(place) if place.through == "litellm" else OpenAITransport(place)
            desk = self._desks[model.name] = EndpointState(place, line)
        return desk

    async def _ask(
        self,
        model: CoachModel,
        messages: Sequence[Message],
        shape: AnswerSchema | None,
        temperature: float | None,
        max_tokens: int | None,
        retries: int | None = None,
    ) -> Reply:
        desk = self._desk(model)
        given = (temperature, model.temperature, self.settings.temperature)
        limits = (max_tokens, model.max_tokens, self.settings.max_tokens)
        call = CoachCall(
            self,
            model,
            desk,
            shape,
            temperature=next((each for each in given if each is not None), None),
            max_tokens=next((each for each in limits if each is not None), None),
            retries=retries,
        )
        problem = ""
        try:
            reply = await call.run(messages)
            problem = reply.problem
            return reply
        except CoachUnavailable as error:
            problem = error.message
            if call.is_final:
                self._gone[model.name] = error
            raise
        except asyncio.CancelledError:
            problem = "It was cancelled."
            raise
        finally:
            if self._hear is not None:
                self._hear(call.record.spans(problem))

    def tell(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._say(sentence)
