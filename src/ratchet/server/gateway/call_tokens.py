"""Checks and packs the tokens of a recorded call, or drops them with a reason."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ratchet.observe.model_apis import ChoiceTokens
from ratchet.observe.model_apis.bounded_json import mapping, name
from ratchet.server.metrics import Metrics
from ratchet.types import SpanRecord, Transition, pack_floats, pack_ids

REASONS_BY_FAULT = {
    "api": "its API has no token ids; the agent must call /chat/completions or /completions",
    "no_token_ids": "the engine returns no token ids, although return_token_ids was set; vLLM does"
    " so from 0.10.2 on, as do models served by Ratchet",
    "no_logprobs": "the engine returns no log-probabilities, although logprobs was set",
    "lengths_differ": "the engine returned different numbers of log-probabilities and token ids",
    "bad_number": "the engine returned an invalid token id or log-probability",
    "incomplete": "the response broke off",
    "unreadable": "the response could not be read",
}
"""Why the tokens of a call are not known."""

SLACK = 0.01
"""How far above zero a log-probability may be by rounding."""

MAX_WARNINGS = 1_000

_log = logging.getLogger(__name__)


class TokenKeeping(msgspec.Struct, frozen=True):
    """How the tokens of a call are kept."""

    trains: bool
    """Whether the rollout trains a model: a call whose tokens are unknown is then dropped, and
    counted by reason."""
    role: str = ""


def transitions_of(
    call: Transition,
    choices: Sequence[ChoiceTokens],
    engine: Mapping[str, Any],
    keeping: TokenKeeping,
    fault: str,
) -> tuple[Transition, ...]:
    """The transitions of a call: one for each choice; or one that is dropped.

    Args:
        call: The call without its tokens.
        choices: Tokens of its choices.
        engine: What the engine says of itself: its field `ratchet`.
        keeping: How they are kept.
        fault: Why the response is not whole: a key of REASONS_BY_FAULT; empty when it is.
    """
    reason = fault or ("" if choices else "no_token_ids")
    transitions: list[Transition] = []
    for number, choice in enumerate(choices if not reason else ()):
        reason = _fault(choice)
        if reason:
            break
        try:
            transitions.append(
                msgspec.structs.replace(
                    call,
                    id=f"{call.id}.{number}" if number else call.id,
                    prompt_ids=pack_ids(choice.prompt or ()),
                    response_ids=pack_ids(choice.response or ()),
                    logprobs=pack_floats(min(value or 0.0, 0.0) for value in choice.logprobs or ()),
                    finish_reason=choice.finish_reason,
                    version_first=name(engine.get("version_first")),
                    version_last=name(engine.get("version_last")),
                    tokenizer=name(engine.get("tokenizer")),
                    template=name(engine.get("template")),
                )
            )
        except OverflowError:
            reason = "bad_number"
            break
    if not reason:
        return tuple(transitions)
    # Of a rollout that does not train, nobody asked for tokens.
    return (msgspec.structs.replace(call, drop=reason),) if keeping.trains else ()


def _fault(choice: ChoiceTokens) -> str:
    if choice.prompt is None or choice.response is None:
        return "no_token_ids"
    if choice.logprobs is None:
        return "no_logprobs"
    if len(choice.response) != len(choice.logprobs):
        return "lengths_differ"
    if any(id < 0 for id in choice.prompt) or any(id < 0 for id in choice.response):
        return "bad_number"
    if any(value is None or not -math.inf < value <= SLACK for value in choice.logprobs):
        return "bad_number"
    return ""


def engine_of(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """The engine's identity, from a response."""
    return mapping(response.get("ratchet"))


class TokenWatch:
    """Counts the calls whose tokens are kept or dropped, and warns of each cause once.

    Args:
        metrics: Counts them.
    """

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics = metrics
        self._warned: set[tuple[str, str, str]] = set()
        self._tokenizers: dict[str, str] = {}

    def note(self, record: SpanRecord) -> None:
        """Count a recorded call."""
        if not record.transitions:
            return
        first = record.transitions[0]
        if self._metrics is not None:
            self._metrics.tokens(first.drop or "kept")
        upstream = str(record.span.attributes.get("ratchet.upstream", ""))
        if first.drop:
            if self._first_time(upstream, first.model, first.drop):
                _log.error(
                    "Calls of the model %r at the upstream %r cannot be trained on: %s.",
                    first.model,
                    upstream,
                    REASONS_BY_FAULT[first.drop],
                )
            return
        before = self._tokenizers.setdefault(upstream, first.tokenizer)
        if before != first.tokenizer:
            self._tokenizers[upstream] = first.tokenizer
            _log.error(
                "The upstream %r has changed its tokenizer: %s instead of %s. Do not mix "
                "token ids of both in training.",
                upstream,
                first.tokenizer or "an unnamed one",
                before or "an unnamed one",
            )

    def _first_time(self, *cause: str) -> bool:
        if cause in self._warned or len(self._warned) >= MAX_WARNINGS:
            return False
        self._warned.add((cause[0], cause[1], cause[2]))
        return True
