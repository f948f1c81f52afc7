"""Substitution: puts the candidate's prompts and its trained model's name into a request."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import msgspec

from ratchet.bind.live import LiveChooser
from ratchet.bind.recognise import (
    MAX_TEXT,
    RecognisedPrompt,
    Recogniser,
    RegisteredPrompt,
    refill,
    with_whitespace_of,
)
from ratchet.observe.model_apis import ModelApi
from ratchet.observe.model_apis.request_texts import TextPath
from ratchet.server.gateway.loading_cache import LoadingCache
from ratchet.server.gateway.target import GatewayTarget
from ratchet.server.gateway.units import CallUnit, unit_of
from ratchet.store import Store
from ratchet.types import (
    Adapter,
    Candidate,
    InputError,
    LiveVersions,
    Model,
    PromptTemplate,
    RatchetError,
    Resource,
    version_of,
)
from ratchet.types.trace import CANDIDATE


class Substitution(msgspec.Struct, frozen=True):
    """A request to send instead of the client's."""

    request: dict[str, Any]
    """As made by `ModelApi.with_texts`: unchanged parts are the same objects."""
    attributes: dict[str, Any] = {}
    """Attributes of the call's span, such as the candidate and the resources."""
    adapter: Adapter | None = None
    """Trained weights that the request names as its model; None for any other model."""


class Substitute(Protocol):
    """Replaces prompts in a request before it is sent."""

    async def __call__(
        self,
        target: GatewayTarget,
        request: dict[str, Any],
        dialect: ModelApi,
        unit: CallUnit,
    ) -> Substitution | None:
        """The request to send instead; None to send it as it is.

        Args:
            target: The attempt or agent that the call belongs to.
            request: The decoded request; it must not be modified.
            dialect: Finds and replaces the instructions in it.
            unit: What a canary's assignment is constant for.

        Raises:
            RatchetError: The store cannot be read. A call of an attempt then fails, since it would
                run with the wrong prompt; a live agent's call is sent unchanged.
        """


CACHE_TTL_S = 2.0
"""Lifetime of cached settings, activations and versions, in seconds."""

READ_TIMEOUT_S = 3.0
"""Seconds that a call waits for the store."""

AGENTS = 2_000
"""Maximum number of live agents whose conversations are remembered."""

MAX_PROMPT_VERSIONS = 100
"""Maximum number of a prompt's versions recognised besides those of a candidate's ancestors."""

MAX_ANCESTORS = 100
"""Maximum number of a candidate's ancestors that are looked at, nearest first."""

MAX_PROMPTS = 1_000
"""Maximum number of versions that are recognised across all prompts of a candidate."""

MAX_TEXTS = 32
"""Maximum number of texts of a request that are examined."""

LONG_TEXT = 20_000
"""From this many characters on, recognition runs in a thread, since it may take milliseconds."""

PROMPT_NAME = "ratchet.prompt.name"
"""Span attribute: name of the recognised prompt; a list when a request has several."""

PROMPT_VERSION = "ratchet.prompt.version"
"""Span attribute: the recognised version."""

CANDIDATE_VERSION = "ratchet.prompt.candidate_version"
"""Span attribute: the version that was sent; empty when the prompt could not be replaced."""

NOT_REPLACED = "ratchet.prompt.not_replaced"
"""Span attribute: the reason why a prompt was not replaced."""

DISCOVERY = "discover"
"""Algorithm of candidates whose prompts were discovered in recorded model calls."""

_log = logging.getLogger(__name__)


class _Rollout(NamedTuple):
    agent: str
    candidate_id: str


class _AgentSettings(NamedTuple):
    """Gateway settings of an agent."""

    substitute: bool
    versions: LiveVersions | None
    """The candidate that live calls run; None without substitution."""


class _Replacements(NamedTuple):
    """The prompts of a candidate, and the recogniser of all prompts of its systems."""

    candidate_id: str
    prompts: dict[str, tuple[str, PromptTemplate]]
    """Version and template by name."""
    recogniser: Recogniser
    discovered: bool
    """Whether its first ancestor's prompts were discovered in the agent's calls: then only the
    gateway can give the agent the candidate's prompts."""
    model: Model | None
    """The candidate's trained model, whatever the call names; None for the agent's own model."""
    models: Mapping[str, str]
    """The candidate's model, by the model named in the agent's calls."""


class PromptSubstituter:
    """Replaces prompts for agents whose settings enable that, and in rollouts of discovered
    prompts.

    Args:
        store: Store of rollouts, candidates, settings and prompts.
        clock: Monotonic clock in seconds.
        timeout_s: Seconds that a call waits for the store.
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
        # A rollout's agent and candidate never change.
        self._rollouts: LoadingCache[_Rollout] = cache(
            self._read_rollout, ttl_s=math.inf, limit=20_000
        )
        self._agents: LoadingCache[_AgentSettings] = cache(
            self._read_agent, ttl_s=CACHE_TTL_S, limit=2_000
        )
        self._replacements_of: LoadingCache[_Replacements] = cache(
            self._read_replacements, ttl_s=CACHE_TTL_S, limit=32
        )
        self._clock = clock
        self._choosers: OrderedDict[str, tuple[LiveVersions, LiveChooser]] = OrderedDict()
        # Keyed by content hash, so immutable.
        self._template = functools.lru_cache(maxsize=4_096)(self._read_template)
        self._candidate = functools.lru_cache(maxsize=1_024)(store.candidates.get)
        self._recogniser = functools.lru_cache(maxsize=32)(self._make_recogniser)

    async def __call__(
        self,
        target: GatewayTarget,
        request: dict[str, Any],
        dialect: ModelApi,
        unit: CallUnit | None = None,
    ) -> Substitution | None:
        """The request with its prompts replaced; see `Substitute`.

        The unit is that of the request by default.
        """
        try:
            if target.is_attempt:
                replacements, assigned = await self._of_attempt(target), {}
            else:
                assigned = await self._assigned(target.agent, unit or unit_of(request))
                candidate_id = assigned.pop(CANDIDATE, "")
                replacements = (
                    await self._replacements_of.get(candidate_id) if candidate_id else None
                )
            substitution = None
            if replacements is not None:
                substitution = await _replaced(replacements, request, dialect)
            if not assigned:
                return substitution
            substitution = substitution or Substitution(request)
            return msgspec.structs.replace(
                substitution, attributes={**substitution.attributes, **assigned}
            )
        except RatchetError:
            raise
        except Exception as error:
            _log.exception("Prompts of %s could not be replaced.", target)
            raise RatchetError(
                f"Prompts could not be replaced: {type(error).__name__}: {error}"[:500]
            ) from error

    async def _of_attempt(self, target: GatewayTarget) -> _Replacements | None:
        """Replacements for a rollout's call; None when nothing is to be replaced."""
        agent, candidate_id = await self._rollouts.get(target.rollout_id)
        if not candidate_id:
            return None
        if (await self._agents.get(agent)).substitute:
            return await self._replacements_of.get(candidate_id)
        try:
            replacements = await self._replacements_of.get(candidate_id)
        except InputError:  # made elsewhere, and not stored
            return None
        if replacements.discovered:
            return replacements
        # The agent's process has the candidate's prompts. Its models are named in the calls.
        own = replacements.model or replacements.models
        return replacements._replace(prompts={}) if own else None

    async def _assigned(self, agent: str, unit: CallUnit) -> dict[str, str]:
        """Attributes of a live call that say which candidate it gets; empty for none."""
        versions = (await self._agents.get(agent)).versions
        if versions is None:
            return {}
        chooser = self._choosers.get(agent)
        if chooser is None or chooser[0] is not versions:
            live_chooser = (
                LiveChooser(self._clock, serve=_nobody, declared=_nothing)
                if chooser is None
                else chooser[1]
            )
            live_chooser.serve(versions)
            chooser = self._choosers[agent] = (versions, live_chooser)
            while len(self._choosers) > AGENTS:
                self._choosers.popitem(last=False)
        self._choosers.move_to_end(agent)
        chosen = chooser[1].choose(unit.id, conversation=unit.conversation)
        return {} if chosen is None else dict(chosen.attributes)

    def _read_rollout(self, rollout_id: str) -> _Rollout:
        rollout = self._store.rollouts.get([rollout_id]).get(rollout_id)
        if rollout is None:
            raise InputError(f"The store has no rollout {rollout_id!r}.")
        return _Rollout(rollout.queue, rollout.candidate_id)

    def _read_agent(self, name: str) -> _AgentSettings:
        settings = self._store.agents.settings(name)
        if not settings.substitute:
            return _AgentSettings(False, None)
        chooser = self._choosers.get(name)
        versions = self._store.traffic.versions(name, chooser[0].tag if chooser else "")
        return _AgentSettings(True, chooser[0] if versions is None and chooser else versions)

    def _read_replacements(self, candidate_id: str) -> _Replacements:
        candidate: Candidate = self._candidate(candidate_id)
        ancestors = self._ancestors(candidate)
        prompts = {
            name: (version_of(resource), resource)
            for name, resource in candidate.resources.items()
            if isinstance(resource, PromptTemplate)
        }
        # The texts of other agents of the same system may begin like a prompt of the candidate;
        # they belong to their own prompts, which it leaves as they are.
        systems = {_system(name) for name in prompts}
        other_names = [
            name
            for name in (self._store.resources.names("prompt") if prompts else ())
            if name not in prompts and _system(name) in systems
        ]
        limit = min(
            MAX_PROMPT_VERSIONS, max(MAX_PROMPTS // max(len(prompts) + len(other_names), 1), 1)
        )
        registered: list[tuple[str, str]] = []
        for name in other_names:
            versions = [version_id for version_id, _ in self._store.resources.versions(name)]
            registered += [(name, version_id) for version_id in versions[-limit:]]
        for name, (version, _) in prompts.items():
            newest = [version_id for version_id, _ in self._store.resources.versions(name)][-limit:]
            # An agent sends what its source says: the prompt of a candidate's first ancestor, which
            # a long search leaves far behind the newest.
            inherited = [
                version_of(ancestor.resources[name])
                for ancestor in ancestors
                if name in ancestor.resources
            ]
            # The candidate's own comes last, so that it is found when two versions are equal.
            versions = [
                version_id
                for version_id in dict.fromkeys((*reversed(inherited), *newest))
                if version_id != version
            ]
            registered += [(name, version_id) for version_id in (*versions, version)]
        recogniser = self._recogniser(tuple(registered))
        discovered = any(member.algorithm == DISCOVERY for member in (*ancestors, candidate))
        trained = [
            resource
            for resource in candidate.resources.values()
            if isinstance(resource, Model) and resource.adapter is not None
        ]
        # With several, only the agent can tell which call is whose.
        model = trained[0] if len(trained) == 1 else None
        models = _other_models(candidate)
        return _Replacements(candidate_id, prompts, recogniser, discovered, model, models)

    def _ancestors(self, candidate: Candidate) -> list[Candidate]:
        """The ancestors of a candidate, nearest first, without pruned ones."""
        ancestors: dict[str, Candidate] = {}
        waiting = list(candidate.parents)
        while waiting and len(ancestors) < MAX_ANCESTORS:
            parent_id = waiting.pop(0)
            if parent_id in ancestors:
                continue
            try:
                ancestors[parent_id] = self._candidate(parent_id)
            except InputError:
                continue
            waiting += ancestors[parent_id].parents
        return list(ancestors.values())

    def _read_template(self, version: str) -> PromptTemplate | None:
        resource = self._store.resources.get(version)
        if isinstance(resource, PromptTemplate) and len(resource.text) <= MAX_TEXT:
            return resource
        return None

    def _make_recogniser(self, registered: tuple[tuple[str, str], ...]) -> Recogniser:
        prompts = ((name, version, self._template(version)) for name, version in registered)
        return Recogniser(
            RegisteredPrompt(n, v, template) for n, v, template in prompts if template
        )


class _RecognisedPrompt(NamedTuple):
    """A recognised prompt of the candidate."""

    found: RecognisedPrompt
    reason: str
    """Why the prompt is not replaced although the candidate has another version."""


async def _replaced(
    replacements: _Replacements, request: dict[str, Any], dialect: ModelApi
) -> Substitution | None:
    """The request with a candidate's prompts and model; None when it has neither."""
    substitution = None
    if replacements.prompts:
        substitution = await _substituted(replacements, request, dialect)
    model = replacements.model
    named = request.get("model")
    other = replacements.models.get(named) if isinstance(named, str) else None
    if model is not None and named is not None:
        other = model.model
    if other is None:
        return substitution
    substitution = substitution or Substitution(request)
    changed = {**substitution.request, "model": other}
    return Substitution(changed, substitution.attributes, model.adapter if model else None)


def _other_models(candidate: Candidate) -> dict[str, str]:
    """The replacements for the models named in the agent's calls."""
    return {
        model.in_calls: model.model
        for model in candidate.resources.values()
        if isinstance(model, Model) and model.in_calls and model.in_calls != model.model
    }


async def _substituted(
    replacements: _Replacements, request: dict[str, Any], dialect: ModelApi
) -> Substitution | None:
    recogniser = replacements.recogniser
    texts = dialect.prompt_texts(request)
    # A user may quote the instructions: beside them, his message holds only a user's prompts.
    beside = texts.user if texts.user is not texts.leading and recogniser.finds_within else []
    examined = [*((path, text, recogniser.find_anywhere) for path, text in texts.leading)]
    examined += [(path, text, recogniser.find_within) for path, text in beside]
    examined = examined[:MAX_TEXTS]
    if not examined:
        return None
    recognise = functools.partial(_recognised, replacements, examined)
    length = sum(len(text) for _, text, _ in examined)
    recognised = recognise() if length < LONG_TEXT else await asyncio.to_thread(recognise)
    replaced = {
        path: new_text
        for (path, text, _), (new_text, _) in zip(examined, recognised, strict=True)
        if new_text != text
    }
    changed = dialect.with_texts(request, replaced) if replaced else request
    prompts = [prompt for _, prompts in recognised for prompt in prompts]
    return Substitution(changed, _attributes(replacements, prompts))


def _recognised(
    replacements: _Replacements,
    examined: Sequence[tuple[TextPath, str, Callable[[str], RecognisedPrompt | None]]],
) -> list[tuple[str, list[_RecognisedPrompt]]]:
    """Each text with the candidate's prompts in it, and the prompts recognised in it."""
    return [_replaced_in(replacements, text, find(text), ()) for _, text, find in examined]


def _nobody(_: Mapping[str, Resource]) -> None:
    """The gateway itself resolves no resources."""


def _system(name: str) -> str:
    """The common part of the names of a system's prompts."""
    return name.partition(".")[0]


def _replaced_in(
    replacements: _Replacements, text: str, prompt: RecognisedPrompt | None, others: tuple[str, ...]
) -> tuple[str, list[_RecognisedPrompt]]:
    """A text with the candidate's prompts: the one recognised, and those before and after it.

    Args:
        replacements: What the candidate has.
        text: The text.
        prompt: The prompt that was recognised; None for none.
        others: Names of the prompts that were recognised around it.
    """
    if prompt is None:
        return text, []
    inner = text[len(prompt.before) : len(text) - len(prompt.after)]
    recognised = []
    if prompt.name in replacements.prompts:
        inner, reason = _replacement(replacements, inner, prompt)
        recognised = [_RecognisedPrompt(prompt, reason)]
    parts = []
    others = (*others, prompt.name)
    for part in (prompt.before, prompt.after):
        next_prompt = replacements.recogniser.find_within(part, others) if part else None
        new_part, prompts = _replaced_in(replacements, part, next_prompt, others)
        parts.append(new_part)
        recognised += prompts
        others = (*others, *(recognised_prompt.found.name for recognised_prompt in prompts))
    return f"{parts[0]}{inner}{parts[1]}", recognised


def _replacement(
    replacements: _Replacements, inner: str, prompt: RecognisedPrompt
) -> tuple[str, str]:
    """A recognised prompt's text in the candidate, and why it is kept if it differs."""
    version, template = replacements.prompts[prompt.name]
    if version == prompt.version:
        return inner, ""
    try:
        return with_whitespace_of(refill(template, prompt.slots), inner), ""
    except InputError as error:
        return inner, error.message


def _attributes(replacements: _Replacements, recognised: list[_RecognisedPrompt]) -> dict[str, Any]:
    if not recognised:
        return {NOT_REPLACED: "No registered prompt was recognised in the request."}
    names = [prompt.found.name for prompt in recognised]
    placed_versions = [
        "" if prompt.reason else replacements.prompts[prompt.found.name][0] for prompt in recognised
    ]
    attributes = {
        CANDIDATE: replacements.candidate_id,
        PROMPT_NAME: _one_or_all(names),
        PROMPT_VERSION: _one_or_all([prompt.found.version for prompt in recognised]),
        CANDIDATE_VERSION: _one_or_all(placed_versions),
    }
    reasons = [f"{prompt.found.name}: {prompt.reason}" for prompt in recognised if prompt.reason]
    if reasons:
        attributes[NOT_REPLACED] = " ".join(reasons)
    return attributes


def _one_or_all(values: list[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else values


def _nothing() -> Mapping[str, str]:
    """The gateway's own source declares no resources of an agent."""
    return _NOTHING


_NOTHING: Mapping[str, str] = {}
