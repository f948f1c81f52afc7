"""Tokens that an engine read and wrote, in requests and responses like vLLM's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

TRAIN_SAMPLING: dict[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""Settings with which an engine samples from the model's own distribution, so that the
log-probabilities it returns are those of the policy. All are stated, since engines take missing
ones from the model's `generation_config.json`."""

_DISTORTING = ("logit_bias", "best_of", "use_beam_search", "length_penalty")

EXTRA_FIELDS = ("prompt_token_ids", "prompt_logprobs", "ratchet")
"""Fields of a response that hold tokens or data about them."""

EXTRA_CHOICE_FIELDS = ("token_ids", "prompt_token_ids", "prompt_logprobs")
"""The same fields of a choice."""


class ChoiceTokens(NamedTuple):
    """The tokens of a choice; None if the response has none, or too many."""

    prompt: list[int] | None
    response: list[int] | None
    logprobs: list[float | None] | None
    finish_reason: str


def for_training(request: Mapping[str, Any], logprobs: Any) -> dict[str, Any]:
    """A request for tokens, sampled from the model's own distribution.

    Args:
        request: The client's request.
        logprobs: The value of `logprobs` with which the API returns them.
    """
    changed = {key: value for key, value in request.items() if key not in _DISTORTING}
    changed.update(TRAIN_SAMPLING)
    changed["return_token_ids"] = True
    changed["logprobs"] = changed.get("logprobs") or logprobs
    return changed


def without_tokens(request: Mapping[str, Any]) -> None:
    """For APIs whose responses have no token ids: ask for none."""


def no_tokens(response: Mapping[str, Any]) -> list[ChoiceTokens]:
    """For APIs whose responses have no token ids: read none."""
    return []
