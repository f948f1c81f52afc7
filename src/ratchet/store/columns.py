"""Column types that store any text and JSON on every database."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from sqlalchemy import BigInteger, Dialect, Integer, Text
from sqlalchemy.types import TypeDecorator

from ratchet.types import InputError

Serial = BigInteger().with_variant(Integer(), "sqlite")
"""Auto-incremented integer; on SQLite only INTEGER is an alias of the row id."""

# Postgres stores neither NUL nor lone surrogates in text, and no driver encodes the latter.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def clean(words: str) -> str:
    """Replace NUL and lone surrogates with U+FFFD."""
    if words.isascii() and "\x00" not in words:
        return words
    return _UNSTORABLE.sub(_REPLACEMENT, words)


def encode(value: Any) -> str:
    """Encode builtin data or msgspec structs as JSON; lone surrogates become U+FFFD.

    NUL is kept: JSON escapes it.

    Raises:
        InputError: The value has no JSON form.
    """
    try:
        return _encoder.encode(value).decode()
    except UnicodeEncodeError:
        return _encoder.encode(_without_surrogates(msgspec.to_builtins(value))).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(
            f"A value of type {type(value).__name__} cannot be stored as JSON: {error}.",
            hint="Use strings, finite numbers, booleans, None, lists and dictionaries.",
        ) from error


def decode(stored: str) -> Any:
    """Decode JSON to builtin data."""
    return _decoder.decode(stored)


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub(_REPLACEMENT, value)
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_surrogates(item) for item in value]
    return value


class CleanText(TypeDecorator[str]):
    """Text, cleaned when it is stored.

    The migrations give it the collation C in Postgres: prefix ranges need byte order, and sorting
    must not depend on the server's locale.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else clean(value)


class JsonText(TypeDecorator[Any]):
    """Any JSON value, stored as text.

    Not as JSONB: text preserves key order, large numbers and NUL, and no query looks inside.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        return encode(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else _decoder.decode(value)
