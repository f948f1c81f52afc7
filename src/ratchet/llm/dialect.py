"""API dialect of an endpoint: which request fields it supports, learned from its refusals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from ratchet.llm.chat import Message
from ratchet.llm.failures import is_spent
from ratchet.llm.structured import AnswerSchema, instruction

_REASONING = re.compile(r"(?:^|/)(?:o\d|gpt-(?:[5-9]|\d\d))")
_FORMAT = re.compile(r"response_format|json_schema|json_object|structured output|schema", re.I)
_LIMIT = re.compile(r"max_tokens|max_completion_tokens|completion tokens|output tokens", re.I)
_LIMIT_SIZE = re.compile(r"too large|at most|exceed|maximum|less than|range|greater", re.I)


class EndpointDialect(msgspec.Struct, frozen=True, kw_only=True):
    """The request format that an endpoint accepts for a model."""

    format: Literal["schema", "object", "plain"] = "schema"
    """Form of a structured answer: by JSON schema, as any JSON object, or by instruction only."""
    in_words: bool = False
    """Whether the messages also contain the schema, because the endpoint does not enforce it."""
    limit: Literal["max_tokens", "max_completion_tokens", "none"] = "max_tokens"
    temperature: bool = True
    """Whether the endpoint accepts a temperature."""

    @classmethod
    def of(cls, model: str, host: str) -> EndpointDialect:
        """Initial dialect for a model."""
        newer = host == "api.openai.com" or _REASONING.search(model)
        return cls(limit="max_completion_tokens" if newer else "max_tokens")

    def body(
        self,
        model: str,
        messages: Sequence[Message],
        shape: AnswerSchema | None,
        temperature: float | None,
        max_tokens: int | None,
    ) -> dict[str, Any]:
        """Build the request body in the format of OpenAI's chat completions."""
        chat = [{"role": message.role, "content": message.content} for message in messages]
        body: dict[str, Any] = {"model": model}
        if shape is not None:
            if self.format != "schema" or self.in_words:
                chat = _with_instruction(chat, instruction(shape.schema))
            if self.format == "schema":
                form = {"name": "answer", "schema": shape.schema, "strict": shape.is_strict}
                body["response_format"] = {"type": "json_schema", "json_schema": form}
            elif self.format == "object":
                body["response_format"] = {"type": "json_object"}
        body["messages"] = chat
        if temperature is not None and self.temperature:
            body["temperature"] = temperature
        if max_tokens is not None and self.limit != "none":
            body[self.limit] = max_tokens
        return body

    def without_refused_feature(
        self, body: dict[str, Any], status: int, refusal: str
    ) -> EndpointDialect | None:
        """Return the dialect to retry with; None if the format of the request is not the cause.

        Args:
            body: The request body.
            status: HTTP status of the response.
            refusal: Error message of the endpoint.
        """
        if status not in _REFUSALS or is_spent(refusal):
            return None
        if self.limit in body and _LIMIT.search(refusal):
            if _LIMIT_SIZE.search(refusal) and "unsupported" not in refusal.lower():
                return msgspec.structs.replace(self, limit="none")
            alternative = "max_tokens" if self.limit != "max_tokens" else "max_completion_tokens"
            return msgspec.structs.replace(self, limit=alternative)
        if "temperature" in body and "temperature" in refusal.lower():
            return msgspec.structs.replace(self, temperature=False)
        bare = status in (400, 422) and len(refusal) < _SHORTEST_EXPLANATION
        if "response_format" in body and (bare or _FORMAT.search(refusal)):
            return msgspec.structs.replace(self, format=_NEXT[self.format])
        return None


_NEXT: dict[str, Literal["object", "plain"]] = {"schema": "object", "object": "plain"}

_REFUSALS = frozenset({400, 404, 422, 500, 501})
"""Statuses with which servers reject a request field."""

_SHORTEST_EXPLANATION = 40
"""A refusal shorter than this many characters is not an explanation, for example `Bad Request`."""


def _with_instruction(chat: list[dict[str, str]], text: str) -> list[dict[str, str]]:
    """Append an instruction to the last user message."""
    extended = list(chat)
    for at in reversed(range(len(extended))):
        if extended[at]["role"] == "user":
            extended[at] = {"role": "user", "content": f"{extended[at]['content']}\n\n{text}"}
            return extended
    return [*extended, {"role": "user", "content": text}]
