"""Fields of a value under keys of the user's choice: `--messages` and `--reward` name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.curate.importing.cell_values import structured
from ratchet.curate.importing.records import FormatMismatch, ImportContext

_MISSING = object()


def has_named_fields(value: Any, context: ImportContext) -> bool:
    """Whether a value has every field that the context names."""
    return all(
        _field(value, key) is not _MISSING for key in (context.messages, context.reward) if key
    )


def with_standard_names(value: Any, context: ImportContext) -> Any:
    """The value with the fields that the context names as `messages` and `reward`.

    Raises:
        FormatMismatch: The value lacks one, or the messages are not a list.
    """
    if not context.messages and not context.reward:
        return value
    for key in filter(None, (context.messages, context.reward)):
        if _field(value, key) is _MISSING:
            raise FormatMismatch(f"it has no field {key!r}{keys_of(value)}")
    standard: dict[str, Any] = {}
    if context.messages:
        standard["messages"] = structured(_field(value, context.messages))
        if not isinstance(standard["messages"], list):
            raise FormatMismatch(f"its field {context.messages!r} is not a list of messages")
    if context.reward:
        standard["reward"] = _field(value, context.reward)
    renamed = (context.messages, context.reward)
    return {**{key: field for key, field in value.items() if key not in renamed}, **standard}


def keys_of(value: Any) -> str:
    """The end of a sentence that lists the keys of a value; empty if it has none."""
    return f": its keys are {sorted(map(str, value))[:8]}" if isinstance(value, Mapping) else ""


def _field(value: Any, key: str) -> Any:
    """The field at a key, or at a path of keys joined by dots."""
    if isinstance(value, Mapping) and key in value:
        return value[key]
    for part in key.split("."):
        value = structured(value)
        if not isinstance(value, Mapping) or part not in value:
            return _MISSING
        value = value[part]
    return value
