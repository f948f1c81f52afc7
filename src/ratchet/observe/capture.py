"""Inputs and outputs as bounded JSON text, without ever raising or changing them."""

from __future__ import annotations

from typing import Any

import msgspec

CAPTURE_LIMIT = 16_384
"""Characters kept of one captured value."""


def capture(value: Any, limit: int = CAPTURE_LIMIT) -> str:
    """JSON text of a value; what JSON cannot hold stands as its `repr`, what is long is cut."""
    try:
        text = msgspec.json.encode(value, enc_hook=_readable).decode("utf-8", "replace")
    except Exception as error:  # the user's object, whatever it does, must not break the agent
        text = _last_resort(value, error)
    if len(text) > limit:
        text = f"{text[:limit]}… [{len(text) - limit} more characters]"
    return text


def plain(value: Any) -> Any:
    """A value as JSON data, for storage; what JSON cannot hold becomes its `repr`."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value, enc_hook=_readable))
    except Exception as error:  # see capture
        return _last_resort(value, error)


def _readable(value: Any) -> Any:
    for method in ("model_dump", "to_dict", "_asdict"):
        dump = getattr(value, method, None)
        if callable(dump) and not isinstance(value, type):
            return dump()
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    return repr(value)


def _last_resort(value: Any, error: Exception) -> str:
    try:
        return repr(value)
    except Exception:  # a repr that raises says nothing; its type still does
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
