"""One answer of a model: what a chat completion says, however its server spells it."""

# ruff: noqa: RUF001
from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ratchet.llm.prices import Usage
from ratchet.llm.structured import spoken

CHARACTERS_A_TOKEN = 4
"""About so many characters of English are a token; for answers that do not say how many."""

_REFUSED = re.compile(
    r"(?:i['’]?m (?:really |very )?sorry|sorry|i apologi[sz]e|unfortunately)?[\s,.:;—-]*"
    r"(?:but )?(?:as an ai[^.]*, )?i (?:can['’]?t|cannot|can not|am unable to|'m unable to"
    r"|am not able to|won['’]?t|will not) "
    r"(?:help|assist|comply|provide|do that|fulfil|continue|engage|support|create|answer)",
    re.I,
)
_MOST_REFUSAL = 600


class NotACompletion(ValueError):
    """What came with status 200 is no chat completion."""


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """What a model said."""

    text: str
    """Without thoughts that stand before it."""
    refusal: str = ""
    """That it refused, in its words or its filter's; empty when it did not."""
    finish: str = ""
    """Why it ended: `stop`, `length`, `content_filter`."""
    model: str = ""
    """As the server calls it."""
    id: str = ""
    usage: Usage = Usage()
    estimated: bool = False
    """The server gave no usage; this one is estimated from the characters."""
    cost_usd: float | None = None
    """Dollars, where the server states them."""
    error: Mapping[str, Any] | None = None
    """An error that came with status 200."""


def read_completion(body: bytes, sent: int) -> Completion:
    """Read the body of a chat completion.

    Args:
        body: JSON.
        sent: Characters that were sent, for a usage that is missing.

    Raises:
        NoAnswer: It is no chat completion.
    """
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise NotACompletion(body[:2000].decode("utf-8", "replace")) from None
    if not isinstance(found, dict):
        raise NotACompletion(body[:2000].decode("utf-8", "replace"))
    error = found.get("error")
    if error:
        return Completion(
            text="", error=error if isinstance(error, dict) else {"message": str(error)}
        )
    choices = found.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise NotACompletion(body[:2000].decode("utf-8", "replace"))
    choice = choices[0]
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    whole = _text_of(message.get("content")) or _text_of(choice.get("text"))
    text = spoken(whole)
    finish = choice.get("finish_reason")
    finish = finish if isinstance(finish, str) else ""
    usage, estimated = _usage(found.get("usage"), sent, len(whole))
    cost = found["usage"].get("cost") if isinstance(found.get("usage"), dict) else None
    return Completion(
        text=text,
        refusal=_refusal(message.get("refusal"), finish, text),
        finish=finish,
        model=_text_of(found.get("model"))[:200],
        id=_text_of(found.get("id"))[:200],
        usage=usage,
        estimated=estimated,
        cost_usd=_amount(cost),
    )


def _text_of(content: Any) -> str:
    """The text of a message's content, which may be a list of parts."""
    if isinstance(content, str):
        # Half of a character cannot be stored.
        return content.encode("utf-8", "replace").decode()
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(_text_of(part) for part in parts)
    return ""


def _refusal(said: Any, finish: str, text: str) -> str:
    if isinstance(said, str) and said.strip():
        return said.strip()
    if finish in ("content_filter", "refusal", "safety"):
        return "its filter withheld the answer"
    if len(text) <= _MOST_REFUSAL and _REFUSED.match(text):
        return text
    return ""


def _usage(found: Any, sent: int, said: int) -> tuple[Usage, bool]:
    if isinstance(found, dict):
        given = _count(found.get("prompt_tokens"), found.get("input_tokens"))
        made = _count(found.get("completion_tokens"), found.get("output_tokens"))
        if given is not None and made is not None and (given or made):
            details = found.get("prompt_tokens_details")
            cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
            usage = Usage(
                input_tokens=given,
                output_tokens=made,
                cache_read_tokens=min(cached or 0, given),
            )
            return usage, False
    estimate = Usage(
        input_tokens=-(-sent // CHARACTERS_A_TOKEN), output_tokens=-(-said // CHARACTERS_A_TOKEN)
    )
    return estimate, True


def _count(*values: Any) -> int | None:
    for value in values:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53:
            return value
    return None


def _amount(value: Any) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e6:
        return float(value)
    return None
