"""Failed requests: classification of HTTP errors, and what the caller should do next."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from ratchet.llm.backoff import requested_delay
from ratchet.llm.endpoint import NO_KEY, Endpoint

Remedy: TypeAlias = Literal["again", "request", "never"]
"""again: retry later. request: this request is at fault. never: the endpoint is unusable."""

MAX_QUOTED = 300
"""How many characters of a server's error message are quoted."""

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
    """A request failed.

    Args:
        sentence: What happened, without the key.
        remedy: What the caller should do next.
        hint: What the user can do, if anything.
        status: HTTP status; 0 without one.
        wait_s: Seconds that the server asks to wait.
        server_message: The server's error message, as quoted.
        kind: Short name, for spans.
    """

    def __init__(
        self,
        sentence: str,
        remedy: Remedy,
        *,
        hint: str = "",
        status: int = 0,
        wait_s: float | None = None,
        server_message: str = "",
        kind: str = "",
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.remedy = remedy
        self.hint = hint
        self.status = status
        self.wait_s = wait_s
        self.server_message = server_message
        self.kind = kind or (str(status) if status else "error")


def of_status(
    endpoint: Endpoint, status: int, headers: Mapping[str, str], body: str, message: str, now: float
) -> RequestFailed:
    """Classify a response with an error status.

    Args:
        endpoint: Source of the response.
        status: HTTP status.
        headers: By lower-case name.
        body: The body as text.
        message: The error message in it, if it has the usual form.
        now: Unix seconds.
    """
    quoted = quote(endpoint, message or body)
    where = f"{endpoint.model!r} at {endpoint.shown}"
    tail = f" The server reports: {quoted}" if quoted else ""

    def failed(sentence: str, remedy: Remedy, hint: str = "") -> RequestFailed:
        wait = requested_delay(headers, now) if remedy == "again" else None
        return RequestFailed(
            sentence + tail, remedy, hint=hint, status=status, wait_s=wait, server_message=quoted
        )

    if status == 401:
        return failed(
            f"The key in {_where_key(endpoint)} was refused for {where} (401).",
            "never",
            _KEY_HINT.format(env=endpoint.key_env or "the variable of key_env"),
        )
    if status == 402 or (status in (403, 429) and _NO_MONEY.search(body)):
        return failed(
            f"The account behind {where} has no credit left ({status}).",
            "never",
            "Add credit there, or name another model under [coach].",
        )
    if status == 403:
        return failed(
            f"The key in {_where_key(endpoint)} has no permission to use {where} (403).",
            "never",
            "Grant it there, or name another model or key under [coach].",
        )
    if status == 404:
        return failed(
            f"There is no model {where} (404).",
            "never",
            "Check model and base_url under [coach]; a base_url usually ends in /v1.",
        )
    if 300 <= status < 400:
        return failed(
            f"{endpoint.shown} redirects ({status}) to "
            f"{quote(endpoint, headers.get('location', 'nowhere'))}.",
            "never",
            "Set the final address as base_url under [coach].",
        )
    if status in (408, 409, 425, 429) or status >= 500:
        what = "limits the rate of requests" if status == 429 else "fails"
        return failed(f"{where} {what} ({status}).", "again")
    if _TOO_LONG.search(body) or status == 413:
        return failed(f"The prompt is too long for {where} ({status}).", "request")
    if is_spent(body):
        return failed(f"{where} used up its token limit without an answer ({status}).", "request")
    if _FILTERED.search(body):
        return failed(f"The filter of {where} refused the prompt ({status}).", "request")
    return failed(
        f"{where} rejected the request ({status}).",
        "request",
        "Check model, base_url, temperature and max_tokens under [coach].",
    )


_KEY_HINT = "Put a valid key into {env}, or name the variable that holds it under [coach] key_env."


def is_spent(message: str) -> bool:
    """Whether an error says that the model used up its tokens on reasoning."""
    return _SPENT.search(message) is not None


def quote(endpoint: Endpoint, text: Any) -> str:
    """Format a server's message as one short line, with the key redacted."""
    line = " ".join(without_key(endpoint.key, str(text)[:20_000]).split())
    if re.match(r"(?i)<!doctype|<html|<\?xml", line):
        title = re.search(r"(?i)<(title|h1)[^>]*>([^<]*)", line)
        line = f"a page of HTML{f' ({title[2].strip()})' if title else ''}"
    line = "".join(mark if mark.isprintable() else " " for mark in line)
    return line if len(line) <= MAX_QUOTED else f"{line[:MAX_QUOTED]}…"


_LEAST_KEY, _LONG_KEY, _PIECE = 8, 24, 12


def without_key(key: str, text: str) -> str:
    """Redact a key from a text; of a long key, also every substring of twelve characters."""
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
    redacted: list[str] = []
    for at, mark in enumerate(text):
        if not hidden[at]:
            redacted.append(mark)
        elif at == 0 or not hidden[at - 1]:
            redacted.append("[key]")
    return "".join(redacted)


def _where_key(endpoint: Endpoint) -> str:
    return (
        endpoint.key_env
        if endpoint.key_env and endpoint.key != NO_KEY
        else "the request (none was sent)"
    )
