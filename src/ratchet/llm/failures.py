"""What goes wrong with a request, and what follows: again, otherwise, or never."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from ratchet.llm.backoff import requested_delay
from ratchet.llm.endpoint import NO_KEY, Endpoint

Remedy: TypeAlias = Literal["again", "request", "never"]
"""What follows: try again later; the request is at fault; nobody can be asked there."""

MOST_SAID = 300
"""Characters that are quoted of what a server said."""

_TOO_LONG = re.compile(
    r"context.?(?:length|window|size)|maximum context|too many (?:input )?tokens|prompt is too long"
    r"|string_above_max_length|reduce the length",
    re.I,
)
_FILTERED = re.compile(r"content.?(?:filter|policy|management)|safety system|invalid_prompt", re.I)
_SPENT = re.compile(r"finish the message because max_tokens|output limit was reached", re.I)
_NO_MONEY = re.compile(
    r"insufficient_quota|exceeded your current quota|billing|credit balance", re.I
)


class RequestFailed(Exception):
    """A request brought no answer.

    Args:
        sentence: What happened, without the key.
        then: What follows.
        hint: What a person can do, where somebody can.
        status: HTTP status; 0 without one.
        wait_s: Seconds that the server asks to wait.
        said: What the server said, as far as it is quoted.
        kind: In a word, for spans.
    """

    def __init__(
        self,
        sentence: str,
        then: Remedy,
        *,
        hint: str = "",
        status: int = 0,
        wait_s: float | None = None,
        said: str = "",
        kind: str = "",
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.then = then
        self.hint = hint
        self.status = status
        self.wait_s = wait_s
        self.said = said
        self.kind = kind or (str(status) if status else "error")


def of_status(
    place: Endpoint, status: int, headers: Mapping[str, str], body: str, said: str, now: float
) -> RequestFailed:
    """What an answer with an error status means.

    Args:
        place: Who answered.
        status: HTTP status.
        headers: By lower-case name.
        body: The body as text.
        said: The message in it, if it has the usual form.
        now: Unix seconds.
    """
    quoted = quote(place, said or body)
    where = f"{place.model!r} at {place.shown}"
    tail = f" It says: {quoted}" if quoted else ""

    def trouble(sentence: str, then: Remedy, hint: str = "") -> RequestFailed:
        wait = requested_delay(headers, now) if then == "again" else None
        return RequestFailed(
            sentence + tail, then, hint=hint, status=status, wait_s=wait, said=quoted
        )

    if status == 401:
        return trouble(
            f"The key in {_where_key(place)} is refused for {where} (401).",
            "never",
            _KEY_HINT.format(env=place.key_env or "the variable of key_env"),
        )
    if status == 402 or (status in (403, 429) and _NO_MONEY.search(body)):
        return trouble(
            f"The account behind {where} has no credit left ({status}).",
            "never",
            "Add credit there, or name another model under [coach].",
        )
    if status == 403:
        return trouble(
            f"The key in {_where_key(place)} may not use {where} (403).",
            "never",
            "Allow it there, or name another model or key under [coach].",
        )
    if status == 404:
        return trouble(
            f"There is no model {where} (404).",
            "never",
            "Check model and base_url under [coach]; a base_url usually ends in /v1.",
        )
    if 300 <= status < 400:
        return trouble(
            f"{place.shown} sends elsewhere ({status}): "
            f"{quote(place, headers.get('location', 'nowhere'))}.",
            "never",
            "Name the final address as base_url under [coach].",
        )
    if status in (408, 409, 425, 429) or status >= 500:
        what = "is asked too often" if status == 429 else "fails"
        return trouble(f"{where} {what} ({status}).", "again")
    if _TOO_LONG.search(body) or status == 413:
        return trouble(f"The prompt is too long for {where} ({status}).", "request")
    if is_spent(body):
        return trouble(
            f"{where} spent its limit of tokens without an answer ({status}).", "request"
        )
    if _FILTERED.search(body):
        return trouble(f"The prompt is refused by the filter of {where} ({status}).", "request")
    return trouble(
        f"{where} does not take the request ({status}).",
        "request",
        "Check model, base_url, temperature and max_tokens under [coach].",
    )


_KEY_HINT = "Put a valid key into {env}, or name the variable that holds it under [coach] key_env."


def is_spent(said: str) -> bool:
    """Whether a refusal says that a model thought until its tokens were gone."""
    return _SPENT.search(said) is not None


def quote(place: Endpoint, text: Any) -> str:
    """One line of what a server said, short, and without the key even if the server repeats it."""
    line = " ".join(without_key(place.key, str(text)[:20_000]).split())
    if re.match(r"(?i)<!doctype|<html|<\?xml", line):
        title = re.search(r"(?i)<(title|h1)[^>]*>([^<]*)", line)
        line = f"a page of HTML{f' ({title[2].strip()})' if title else ''}"
    line = "".join(mark if mark.isprintable() else " " for mark in line)
    return line if len(line) <= MOST_SAID else f"{line[:MOST_SAID]}…"


_LEAST_KEY, _LONG_KEY, _PIECE = 8, 24, 12


def without_key(key: str, text: str) -> str:
    """The text with a key taken out; of a long one, also every piece of twelve characters."""
    if key == NO_KEY or len(key) < _LEAST_KEY:
        return text
    size = _PIECE if len(key) >= _LONG_KEY else len(key)
    pieces = {key[at : at + size] for at in range(len(key) - size + 1)}
    if not any(piece in text for piece in pieces):
        return text
    hidden = [False] * len(text)
    for at in range(len(text) - size + 1):
        if text[at : at + size] in pieces:
            hidden[at : at + size] = [True] * size
    made: list[str] = []
    for at, mark in enumerate(text):
        if not hidden[at]:
            made.append(mark)
        elif at == 0 or not hidden[at - 1]:
            made.append("[key]")
    return "".join(made)


def _where_key(place: Endpoint) -> str:
    return place.key_env if place.key_env and place.key != NO_KEY else "the request (none was sent)"
