"""Parses chat completions, including the variants of different servers."""

# ruff: noqa: RUF001
from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ratchet.llm.answer_text import without_reasoning
from ratchet.llm.prices import Usage
from ratchet.observe.model_apis.usage import (
    CACHE_READ,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    usage_attributes,
)

CHARACTERS_A_TOKEN = 4
"""Approximate characters of an English token; estimates the usage that a server does not report."""

_REFUSED = re.compile(
    r"(?:i['’]?m (?:really |very )?sorry|sorry|i apologi[sz]e|unfortunately)?[\s,.:;—-]*"
    r"(?:but )?(?:as an ai[^.]*, )?i (?:can['’]?t|cannot|can not|am unable to|'m unable to"
    r"|am not able to|won['’]?t|will not) "
    r"(?:help|assist|comply|provide|do that|fulfil|continue|engage|support|create|answer)",
    re.I,
)
_MOST_REFUSAL = 600


class NotACompletion(ValueError):
    """A response with status 200 is not a chat completion."""


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed chat completion."""

    text: str
    """The answer, without the reasoning before it."""
    refusal: str = ""
    """The refusal of the model or of the provider's filter; empty if there was none."""
    finish: str = ""
    """Finish reason: `stop`, `length`, `content_filter`."""
    model: str = ""
    """Model name reported by the server."""
    id: str = ""
    usage: Usage = Usage()
    estimated: bool = False
    """Whether the usage is estimated from the number of characters, since the server reported
    none."""
    cost_usd: float | None = None
    """Dollars, if the server reports them."""
    error: Mapping[str, Any] | None = None
    """An error in a response with status 200."""


def read_completion(body: bytes, sent: int) -> Completion:
    """Parse the body of a chat completion.

    Args:
        body: JSON.
        sent: Characters sent, to estimate a missing usage.

    Raises:
        NotACompletion: It is not a chat completion.
    """
    try:
        response = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise NotACompletion(body[:2000].decode("utf-8", "replace")) from None
    if not isinstance(response, dict):
        raise NotACompletion(body[:2000].decode("utf-8", "replace"))
    error = response.get("error")
    if error:
        return Completion(
            text="", error=error if isinstance(error, dict) else {"message": str(error)}
        )
    choices = response.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise NotACompletion(body[:2000].decode("utf-8", "replace"))
    choice = choices[0]
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    content = _text_of(message.get("content")) or _text_of(choice.get("text"))
    text = without_reasoning(content).strip()
    finish = choice.get("finish_reason")
    finish = finish if isinstance(finish, str) else ""
    usage, estimated = _usage(response.get("usage"), sent, len(content))
    cost = response["usage"].get("cost") if isinstance(response.get("usage"), dict) else None
    return Completion(
        text=text,
        refusal=_refusal(message.get("refusal"), finish, text),
        finish=finish,
        model=_text_of(response.get("model"))[:200],
        id=_text_of(response.get("id"))[:200],
        usage=usage,
        estimated=estimated,
        cost_usd=_amount(cost),
    )


def _text_of(content: Any) -> str:
    """Text of a message's content, which may be a list of parts."""
    if isinstance(content, str):
        # Lone surrogates cannot be stored.
        return content.encode("utf-8", "replace").decode()
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(_text_of(part) for part in parts)
    return ""


def _refusal(stated: Any, finish: str, text: str) -> str:
    if isinstance(stated, str) and stated.strip():
        return stated.strip()
    if finish in ("content_filter", "refusal", "safety"):
        return "the provider's filter withheld the answer"
    if len(text) <= _MOST_REFUSAL and _REFUSED.match(text):
        return text
    return ""


def _usage(reported: Any, sent: int, received: int) -> tuple[Usage, bool]:
    counts = usage_attributes(reported) if isinstance(reported, dict) else {}
    input_tokens, output_tokens = counts.get(INPUT_TOKENS, 0), counts.get(OUTPUT_TOKENS, 0)
    if INPUT_TOKENS in counts and OUTPUT_TOKENS in counts and input_tokens + output_tokens:
        usage = Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cache_read_tokens=min(counts.get(CACHE_READ, 0), input_tokens),
        )
        return usage, False
    estimate = Usage(
        input_tokens=-(-sent // CHARACTERS_A_TOKEN),
        output_tokens=-(-received // CHARACTERS_A_TOKEN),
    )
    return estimate, True


def _amount(value: Any) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e6:
        return float(value)
    return None
