"""What an endpoint takes for a model: learned from what it refuses, and remembered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from ratchet.llm.chat import Message
from ratchet.llm.failures import is_spent
from ratchet.llm.structured import AnswerSchema, instruction

_REASONING = re.compile(r"(?:^|/)(?:o\d|gpt-5)")
_FORMAT = re.compile(r"response_format|json_schema|json_object|structured output|schema", re.I)
_LIMIT = re.compile(r"max_tokens|max_completion_tokens|completion tokens|output tokens", re.I)
_LIMIT_SIZE = re.compile(r"too large|at most|exceed|maximum|less than|range|greater", re.I)


class EndpointDialect(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is to be asked at an endpoint."""

    format: Literal["schema", "object", "plain"] = "schema"
    """How a structured answer is asked for: by schema, as any JSON object, or in words alone."""
    in_words: bool = False
    """Whether the schema stands in the messages, too: the endpoint takes one and does not mind."""
    limit: Literal["max_tokens", "max_completion_tokens", "none"] = "max_tokens"
    temperature: bool = True
    """Whether a temperature is taken."""

    @classmethod
    def of(cls, model: str, host: str) -> EndpointDialect:
        """What to begin with."""
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
        """A request to the endpoint, as OpenAI's chat completions have it."""
        said = [{"role": message.role, "content": message.content} for message in messages]
        body: dict[str, Any] = {"model": model}
        if shape is not None:
            if self.format != "schema" or self.in_words:
                said = _with_words(said, instruction(shape.schema))
            if self.format == "schema":
                form = {"name": "answer", "schema": shape.schema, "strict": shape.is_strict}
                body["response_format"] = {"type": "json_schema", "json_schema": form}
            elif self.format == "object":
                body["response_format"] = {"type": "json_object"}
        body["messages"] = said
        if temperature is not None and self.temperature:
            body["temperature"] = temperature
        if max_tokens is not None and self.limit != "none":
            body[self.limit] = max_tokens
        return body

    def without_what_was_refused(
        self, body: dict[str, Any], status: int, refusal: str
    ) -> EndpointDialect | None:
        """How to ask again after a refusal; None when this is not about how it was asked.

        Args:
            body: What was sent.
            status: The answer's HTTP status.
            refusal: What the endpoint said.
        """
        if status not in _REFUSALS or is_spent(refusal):
            return None
        if self.limit in body and _LIMIT.search(refusal):
            if _LIMIT_SIZE.search(refusal) and "unsupported" not in refusal.lower():
                return msgspec.structs.replace(self, limit="none")
            other = "max_tokens" if self.limit != "max_tokens" else "max_completion_tokens"
            return msgspec.structs.replace(self, limit=other)
        if "temperature" in body and "temperature" in refusal.lower():
            return msgspec.structs.replace(self, temperature=False)
        bare = status in (400, 422) and len(refusal) < _SAYS_NOTHING
        if "response_format" in body and (bare or _FORMAT.search(refusal)):
            return msgspec.structs.replace(self, format=_NEXT[self.format])
        return None


_NEXT: dict[str, Literal["object", "plain"]] = {"schema": "object", "object": "plain"}

_REFUSALS = frozenset({400, 404, 422, 500, 501})
"""Statuses by which servers say that they do not take a field."""

_SAYS_NOTHING = 40
"""Characters below which a refusal is no explanation, such as `Bad Request`."""


def _with_words(said: list[dict[str, str]], words: str) -> list[dict[str, str]]:
    """The messages with words added to the last one that is the user's."""
    made = list(said)
    for at in reversed(range(len(made))):
        if made[at]["role"] == "user":
            made[at] = {"role": "user", "content": f"{made[at]['content']}\n\n{words}"}
            return made
    return [*made, {"role": "user", "content": words}]
