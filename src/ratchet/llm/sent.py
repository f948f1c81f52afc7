"""The request as a model is sent it: redacted by the project's rules, with a note on its marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ratchet.llm.chat import Message
from ratchet.llm.failures import RequestFailed
from ratchet.observe.redaction import MARK_START, is_failure_mark

if TYPE_CHECKING:
    from ratchet.observe.redaction import Redactor

MEANING = (
    "Marks such as [redacted:phone] or [redacted:email] stand for values that were removed from"
    " this request for privacy; the word after the colon is the kind of value. The agent itself"
    " reads and writes the real values: a mark is not a mistake of the agent or its users. Where"
    " you repeat a text that contains a mark, keep the mark as it is; write none anywhere else."
)
"""The note that a model is sent if its request contains a mark."""

_VALUES = ("enum", "const", "default", "examples", "example")
"""Keywords of a JSON schema whose values are data."""

_WORDS = ("description", "title", "$comment")


def redacted(messages: Sequence[Message], redactor: Redactor) -> list[Message]:
    """The messages as they are sent, without secrets and personal data.

    Args:
        messages: The conversation.
        redactor: The project's.

    Raises:
        RequestFailed: A message could not be redacted, so nothing may be sent.
    """
    sent = [Message(message.role, redactor.text(message.content)) for message in messages]
    for before, after in zip(messages, sent, strict=True):
        if after.content != before.content and is_failure_mark(after.content):
            raise RequestFailed(
                "A message was not sent, because it could not be redacted "
                f"({after.content.removeprefix(MARK_START).removesuffix(']')}).",
                "request",
                hint="Simplify the patterns under [redaction] in ratchet.toml.",
                kind="redaction",
            )
    if not any(MARK_START in message.content for message in sent):
        return sent
    if sent[0].role == "system":
        return [Message("system", f"{sent[0].content}\n\n{MEANING}"), *sent[1:]]
    return [Message("system", MEANING), *sent]


def redacted_schema(schema: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """A JSON schema with its values and descriptions redacted; its structure is kept.

    Args:
        schema: The schema of an answer.
        redactor: The project's.
    """
    return {str(key): value for key, value in _schema(schema, "", redactor).items()}


def _schema(schema: Any, field: str, redactor: Redactor) -> Any:
    """The schema of a field's value; the name is empty for a value that is not in a field."""
    if isinstance(schema, (list, tuple)):
        return [_schema(subschema, field, redactor) for subschema in schema]
    if not isinstance(schema, Mapping):
        return schema
    redacted: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _VALUES:
            redacted[key] = _unique(_value(value, field, redactor), key)
        elif key in _WORDS and isinstance(value, str):
            redacted[key] = redactor.text(value)
        elif key in ("properties", "patternProperties", "$defs", "definitions"):
            redacted[key] = {
                name: _schema(subschema, name, redactor) for name, subschema in value.items()
            }
        else:
            redacted[key] = _schema(value, field, redactor)
    return redacted


def _value(value: Any, field: str, redactor: Redactor) -> Any:
    return redactor.value({field: value})[field] if field else redactor.value(value)


def _unique(values: Any, key: str) -> Any:
    """The values of an `enum`, each once: two may have become the same mark."""
    if key != "enum" or not isinstance(values, list):
        return values
    return list({msgspec.json.encode(value): value for value in values}.values())
