"""Sets up a run's coach from the configuration or the algorithm: checks, traces and closes it."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import ValidationError

from ratchet.autopilot.agent_model import in_thread
from ratchet.autopilot.learning_sections import CoachSection
from ratchet.learn import Algorithm
from ratchet.llm import (
    ChatClient,
    Coach,
    CoachModel,
    CoachSettings,
    CoachUnavailable,
    Message,
    Reply,
)
from ratchet.llm.chat import KeyMissing
from ratchet.llm.hosted_model import HOSTED_MODEL
from ratchet.llm.recording import records_of
from ratchet.observe.dialects import names
from ratchet.store import Store
from ratchet.types import ConfigError, RatchetError, Span, content_hash

if TYPE_CHECKING:
    from ratchet.observe.redaction import Redactor

_log = logging.getLogger("ratchet")

AGENT = "coach"
"""Agent name of the coach's traces."""

MAX_PENDING = 1_000
"""Maximum number of traces waiting for the store; further traces are dropped."""

LOCAL_TOKENS = 1024
"""Maximum number of tokens in a local coach's answer: a small model may not stop by itself."""

_OWN_KEYS = frozenset(CoachSection.model_fields)


def wants_coach(algorithm: Algorithm) -> bool | None:
    """Whether an algorithm needs a coach: True, False, or None for optional."""
    needed: bool | None = getattr(algorithm, "needs_coach", False)
    return needed


def coach_section(section: CoachSection, algorithm: Algorithm) -> CoachSection:
    """[coach] overridden by an algorithm's own options, as in `APO(model="…", base_url="…")`.

    Raises:
        ConfigError: The algorithm has an option that is not a key of [coach].
    """
    own = dict(getattr(algorithm, "coach_options", None) or {})
    own = {key: value for key, value in own.items() if value is not None}
    unknown = sorted(own.keys() - _OWN_KEYS)
    if unknown:
        raise ConfigError(f"{algorithm.name}: the coach has no option {unknown[0]!r}.")
    if own.get("model"):
        own["models"] = ()
    elif own.get("models"):
        own["model"] = None
    try:
        return type(section).model_validate({**section.model_dump(), **own})
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        raise ConfigError(f"{algorithm.name}: {where}: {problem['msg']}.") from None


def coach_models(section: CoachSection) -> tuple[CoachModel, ...]:
    """The models that [coach] names."""
    if section.model is not None:
        return (
            CoachModel(
                name=section.model,
                input_price=section.input_price,
                output_price=section.output_price,
            ),
        )
    return tuple(
        msgspec.convert(
            {
                **model.model_dump(),
                # These prices apply to all models that set none of their own.
                "input_price": _first(model.input_price, section.input_price),
                "output_price": _first(model.output_price, section.output_price),
            },
            CoachModel,
        )
        for model in section.models
    )


def uses_coach(section: CoachSection, algorithm: Algorithm) -> bool:
    """Whether an algorithm gets a coach: it can use one, and a model is configured."""
    return wants_coach(algorithm) is not False and bool(
        coach_models(coach_section(section, algorithm))
    )


def coach_identity(section: CoachSection, algorithm: Algorithm) -> list[Any]:
    """Identity of a run's coach; empty if the algorithm uses none.

    Addresses, keys, timeouts and prices are excluded, so that a run continues after one is fixed.
    """
    if wants_coach(algorithm) is False:
        return []
    section = coach_section(section, algorithm)
    models = [[m.name, m.weight, m.temperature, m.max_tokens] for m in coach_models(section)]
    return [[models, section.temperature, section.max_tokens]] if models else []


@asynccontextmanager
async def open_coach(
    section: CoachSection,
    algorithm: Algorithm,
    *,
    store: Store,
    run_id: str,
    seed: int,
    redactor: Redactor,
    say: Callable[[str], None],
    folder: Path = Path("."),
) -> AsyncIterator[ChatClient | None]:
    """Open the coach of a run; None if no coach is configured.

    Its local models are started, and stopped at the end. Each model is checked with one cheap call
    before any rollout is spent, once per run, and only for an algorithm that uses a coach.

    Args:
        section: [coach] of the configuration.
        algorithm: The algorithm that calls it.
        store: Stores its traces and the record of the check.
        run_id: The run.
        seed: The run's seed.
        redactor: Applied to what it is sent and to its traces.
        say: Called with sentences for the user.
        folder: Folder that paths of local models are relative to.

    Raises:
        ModelUnavailable: A local model cannot be had or started.
        CoachUnavailable: The algorithm needs a coach and none is named, or a model does not answer;
            or no model can even be asked, for want of a key. Where a coach is optional, one that
            does not answer is replaced by an `AbsentCoach`.
        ConfigError: The coach's settings are invalid.
    """
    needed = wants_coach(algorithm)
    section = coach_section(section, algorithm)
    models = coach_models(section)
    if not models:
        if needed:
            raise CoachUnavailable(
                f"{algorithm.name} needs a coach LLM, but none is configured.",
                hint=f'Set it under [coach] in ratchet.toml, for example model = "{HOSTED_MODEL}",'
                " and put its key into the environment variable OPENAI_API_KEY.",
            )
        yield None
        return
    traces = _Traces(store, run_id)
    async with AsyncExitStack() as stack:
        # A copy: an agent that runs in this process may have variables of its own.
        environ = dict(os.environ)
        served = models
        if needed is not False:
            served = tuple(
                [await _served(stack, model, section, environ, say, folder) for model in models]
            )
        coach = Coach(
            served,
            base_url=section.base_url,
            key_env=section.key_env,
            settings=CoachSettings(
                timeout_s=section.timeout_s,
                total_s=section.total_s,
                retries=section.retries,
                concurrency=section.concurrency,
                temperature=section.temperature,
                max_tokens=section.max_tokens,
            ),
            seed=seed,
            environ=environ,
            redactor=redactor,
            on_spans=traces.put,
            notify=say,
        )
        await stack.enter_async_context(traces)
        await stack.enter_async_context(coach)
        usable: ChatClient = coach
        if needed is not False:
            # Not of `served`: a local model has another port each time.
            identities = [[m.name, m.base_url, m.key_env] for m in models]
            key = content_hash([identities, section.base_url, section.key_env])
            try:
                await _check(coach, store, run_id, f"coach-check/{key}")
            except CoachUnavailable as error:
                if needed or isinstance(error, KeyMissing):
                    raise
                say(f"{error} {algorithm.name} continues without the coach.")
                usable = AbsentCoach(error)
        yield usable


async def _served(
    stack: AsyncExitStack,
    model: CoachModel,
    section: CoachSection,
    environ: dict[str, str],
    say: Callable[[str], None],
    folder: Path,
) -> CoachModel:
    """The model itself, or a local model's endpoint, whose key is put into the environment."""
    if model.base_url or section.base_url:
        return model
    from ratchet.models import is_local, shared_model

    if not is_local(model.name):
        return model

    local = await stack.enter_async_context(in_thread(shared_model(model.name, say, folder)))
    key_env = f"RATCHET_MODEL_KEY_{local.pid}"
    environ[key_env] = local.key
    limit = model.max_tokens or section.max_tokens or LOCAL_TOKENS
    return msgspec.structs.replace(
        model,
        base_url=local.base_url,
        key_env=key_env,
        max_tokens=min(limit, LOCAL_TOKENS),
    )


async def _check(coach: Coach, store: Store, run_id: str, key: str) -> None:
    """Check each model with a cheap call, once a run."""
    if await asyncio.to_thread(store.journal.get, run_id, key) is not None:
        coach.check_endpoints()
        return
    replies = await coach.check()
    body = [msgspec.to_builtins(reply) for reply in replies]
    await asyncio.to_thread(store.journal.append, run_id, key, body, time.time())


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


class AbsentCoach:
    """A coach that did not answer when it was checked.

    Args:
        error: Why it cannot be used.
    """

    def __init__(self, error: CoachUnavailable) -> None:
        self.error = error

    async def ask(self, messages: Sequence[Message], **_: Any) -> Reply:
        """Always raise the coach's error.

        Raises:
            CoachUnavailable: Always.
        """
        raise self.error

    def credit(self, model: str, survived: bool) -> None:
        """Do nothing: no call is made."""


class _Traces:
    """Stores the spans of coach calls in the background, so that no call waits for it."""

    def __init__(self, store: Store, run_id: str) -> None:
        self._store = store
        self._attributes = {"ratchet.run.id": run_id, names.CONVERSATION: run_id}
        self._queue: asyncio.Queue[list[Span] | None] = asyncio.Queue()
        self._warned = False

    def put(self, spans: list[Span]) -> None:
        """Queue a call's spans for storage."""
        if self._queue.qsize() < MAX_PENDING:
            self._queue.put_nowait(spans)

    async def __aenter__(self) -> _Traces:
        self._task = asyncio.create_task(self._write())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._queue.put_nowait(None)
        await self._task

    async def _write(self) -> None:
        while (spans := await self._queue.get()) is not None:
            records = records_of(spans, AGENT, self._attributes)
            try:
                await asyncio.to_thread(self._store.spans.put, records)
            except RatchetError as error:  # a trace is not worth failing a run
                if not self._warned:
                    _log.warning("The coach's traces are not stored: %s", error)
                self._warned = True
