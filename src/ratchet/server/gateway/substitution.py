"""The seam where prompts are replaced: what the gateway asks, and what it is told."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import msgspec

from ratchet.bind.recognise import (
    MAX_TEXT,
    RecognisedPrompt,
    Recogniser,
    RegisteredPrompt,
    refill,
    with_whitespace_of,
)
from ratchet.server.gateway.dialects import GatewayDialect
from ratchet.server.gateway.loading_cache import LoadingCache
from ratchet.server.gateway.target import GatewayTarget
from ratchet.store import Store
from ratchet.types import Candidate, InputError, PromptTemplate, RatchetError, version_of


class Substitution(msgspec.Struct, frozen=True):
    """A request to be sent in the place of the client's."""

    request: dict[str, Any]
    """As `GatewayDialect.with_texts` makes it: what did not change is the same object."""
    attributes: dict[str, Any] = {}
    """What the span of the call says about it, such as the candidate and the resources."""


class Substitute(Protocol):
    """Replaces what a request says, before it is sent."""

    async def __call__(
        self, target: GatewayTarget, request: dict[str, Any], dialect: GatewayDialect
    ) -> Substitution | None:
        """The request to send instead; None to send it as it is.

        Args:
            target: Whom the call belongs to.
            request: The decoded request; it is not to be changed.
            dialect: Finds the instructions in it and replaces them.

        Raises:
            RatchetError: The store cannot say what to replace. A call of an attempt fails then,
                since it would run with the wrong prompt; a live agent's call goes on unchanged.
        """


TTL_S = 2.0
"""How long settings, activations and versions that were read hold, in seconds."""

READ_TIMEOUT_S = 3.0
"""How long a call waits for the store, in seconds."""

NEWEST = 100
"""Versions of a prompt that are recognised."""

MAX_PROMPTS = 1_000
"""Versions of all prompts of a candidate that are recognised."""

MAX_TEXTS = 32
"""Texts of a request that are looked at."""

LONG = 20_000
"""Characters of texts from which on a thread looks at them: it may take milliseconds."""

CANDIDATE = "ratchet.candidate_id"
"""Attribute of a call's span: the candidate whose prompts were looked for a place."""

NAME = "ratchet.prompt.name"
"""Name of the prompt that was recognised; a list when a request has several."""

VERSION = "ratchet.prompt.version"
"""The version that was recognised."""

CANDIDATE_VERSION = "ratchet.prompt.candidate_version"
"""The version that was sent; empty when the recognised one stayed against the candidate."""

NOT_REPLACED = "ratchet.prompt.not_replaced"
"""Why something stayed as it was."""

_log = logging.getLogger(__name__)


class _Rollout(NamedTuple):
    agent: str
    candidate_id: str


class _AgentSettings(NamedTuple):
    """How an agent is treated."""

    substitute: bool
    active_id: str
    """Empty when no candidate is active."""


class _Replacements(NamedTuple):
    """What a candidate puts in the place of what."""

    candidate_id: str
    prompts: dict[str, tuple[str, PromptTemplate]]
    """Version and template by name."""
    recogniser: Recogniser


class PromptSubstituter:
    """Replaces prompts, where an agent's settings say so.

    Args:
        store: Where rollouts, candidates, settings and prompts are.
        clock: Seconds that only grow.
        timeout_s: How long a call waits for the store.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.monotonic,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="ratchet-prompts")
        cache = functools.partial(
            LoadingCache, executor=self._threads, clock=clock, timeout_s=timeout_s
        )
        # What a rollout runs with never changes.
        self._rollouts: LoadingCache[_Rollout] = cache(
            self._read_rollout, ttl_s=math.inf, limit=20_000
        )
        self._agents: LoadingCache[_AgentSettings] = cache(
            self._read_agent, ttl_s=TTL_S, limit=2_000
        )
        self._replacements_of: LoadingCache[_Replacements] = cache(
            self._read_replacements, ttl_s=TTL_S, limit=32
        )
        # What goes by a content hash never changes either.
        self._template = functools.lru_cache(maxsize=4_096)(self._read_template)
        self._candidate = functools.lru_cache(maxsize=64)(store.candidates.get)
        self._recogniser = functools.lru_cache(maxsize=32)(self._make_recogniser)

    async def __call__(
        self, target: GatewayTarget, request: dict[str, Any], dialect: GatewayDialect
    ) -> Substitution | None:
        """The request with its prompts replaced; see `Substitute`."""
        try:
            replacements = await self._replacements(target)
            if replacements is None or not replacements.prompts:
                return None
            return await _substituted(replacements, request, dialect)
        except RatchetError:
            raise
        except Exception as error:
            _log.exception("Prompts of %s could not be replaced.", target)
            raise RatchetError(
                f"Prompts could not be replaced: {type(error).__name__}: {error}"[:500]
            ) from error

    async def _replacements(self, target: GatewayTarget) -> _Replacements | None:
        """What is to be replaced in a call; None when nothing is."""
        if target.is_attempt:
            agent, candidate_id = await self._rollouts.get(target.rollout_id)
            settings = await self._agents.get(agent)
        else:
            settings = await self._agents.get(target.agent)
            candidate_id = settings.active_id
        if not settings.substitute or not candidate_id:
            return None
        return await self._replacements_of.get(candidate_id)

    def _read_rollout(self, rollout_id: str) -> _Rollout:
        rollout = self._store.rollouts.get([rollout_id]).get(rollout_id)
        if rollout is None:
            raise InputError(f"The store has no rollout {rollout_id!r}.")
        return _Rollout(rollout.queue, rollout.candidate_id)

    def _read_agent(self, name: str) -> _AgentSettings:
        if not self._store.agents.settings(name).substitute:
            return _AgentSettings(False, "")
        active = self._store.agents.active(name)
        return _AgentSettings(True, active.candidate_id if active else "")

    def _read_replacements(self, candidate_id: str) -> _Replacements:
        candidate: Candidate = self._candidate(candidate_id)
        prompts = {
            name: (version_of(resource), resource)
            for name, resource in candidate.resources.items()
            if isinstance(resource, PromptTemplate)
        }
        each = min(NEWEST, max(MAX_PROMPTS // max(len(prompts), 1), 1))
        registered: list[tuple[str, str]] = []
        for name, (version, _) in prompts.items():
            known = [known for known, _ in self._store.resources.versions(name)]
            # The candidate's own comes last, so that of two alike it is the one that is found.
            registered += [(name, one) for one in known[-each:] if one != version]
            registered.append((name, version))
        return _Replacements(candidate_id, prompts, self._recogniser(tuple(registered)))

    def _read_template(self, version: str) -> PromptTemplate | None:
        resource = self._store.resources.get(version)
        if isinstance(resource, PromptTemplate) and len(resource.text) <= MAX_TEXT:
            return resource
        return None

    def _make_recogniser(self, registered: tuple[tuple[str, str], ...]) -> Recogniser:
        found = ((name, version, self._template(version)) for name, version in registered)
        return Recogniser(RegisteredPrompt(n, v, template) for n, v, template in found if template)


class _RecognisedPrompt(NamedTuple):
    """A prompt that was recognised, and what became of it."""

    found: RecognisedPrompt
    text: str | None
    """What is put in its place; None when it stays."""
    reason: str
    """Why it stays though the candidate has another one."""


async def _substituted(
    replacements: _Replacements, request: dict[str, Any], dialect: GatewayDialect
) -> Substitution | None:
    texts = dialect.system_texts(request)[:MAX_TEXTS]
    if not texts:
        return None
    if sum(len(text) for _, text in texts) < LONG:
        recognised = [_recognise(replacements, text) for _, text in texts]
    else:
        recognised = await asyncio.to_thread(
            lambda: [_recognise(replacements, text) for _, text in texts]
        )
    replaced = {
        path: one.text
        for (path, _), one in zip(texts, recognised, strict=True)
        if one is not None and one.text is not None
    }
    changed = dialect.with_texts(request, replaced) if replaced else request
    return Substitution(
        changed, _attributes(replacements, [one for one in recognised if one is not None])
    )


def _recognise(replacements: _Replacements, text: str) -> _RecognisedPrompt | None:
    found = replacements.recogniser.find(text)
    if found is None:
        return None
    version, template = replacements.prompts[found.name]
    if version == found.version:
        return _RecognisedPrompt(found, None, "")
    try:
        return _RecognisedPrompt(found, with_whitespace_of(refill(template, found.slots), text), "")
    except InputError as error:
        return _RecognisedPrompt(found, None, error.message)


def _attributes(replacements: _Replacements, seen: list[_RecognisedPrompt]) -> dict[str, Any]:
    if not seen:
        return {NOT_REPLACED: "No registered prompt was recognised in the request."}
    names = [one.found.name for one in seen]
    placed_versions = [
        "" if one.reason else replacements.prompts[one.found.name][0] for one in seen
    ]
    attributes = {
        CANDIDATE: replacements.candidate_id,
        NAME: _one_or_all(names),
        VERSION: _one_or_all([one.found.version for one in seen]),
        CANDIDATE_VERSION: _one_or_all(placed_versions),
    }
    reasons = [f"{one.found.name}: {one.reason}" for one in seen if one.reason]
    if reasons:
        attributes[NOT_REPLACED] = " ".join(reasons)
    return attributes


def _one_or_all(values: list[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else values
