"""Column types: text and JSON that every database can hold, whatever a model wrote."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from sqlalchemy import BigInteger, Dialect, Integer, Text
from sqlalchemy.types import TypeDecorator

from ratchet.types import InputError

Serial = BigInteger().with_variant(Integer(), "sqlite")
"""A counter that the database gives out; only INTEGER is an alias of SQLite's row id."""

# Postgres stores neither NUL nor lone surrogates in text, and no driver encodes the latter.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def clean(words: str) -> str:
    """The same text with U+FFFD in the place of NUL and lone surrogates."""
    if words.isascii() and "\x00" not in words:
        return words
    return _UNSTORABLE.sub(_REPLACEMENT, words)


def encode(value: Any) -> str:
    """JSON text of builtin data or msgspec structs; lone surrogates become U+FFFD.

    NUL stays: JSON escapes it.

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
    """Builtin data from JSON text."""
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
    """Text, cleaned on its way in.

    In Postgres the migrations give it the collation C: a range over a prefix needs byte order,
    and sorting must not depend on the server's locale.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else clean(value)


class JsonText(TypeDecorator[Any]):
    """Any JSON value as text.

    Text and not JSONB: it comes back exactly as it went in (key order, big numbers, NUL), and
    nothing queries inside.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        return encode(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else _decoder.decode(value)
