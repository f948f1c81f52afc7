"""Content hashes: equal content has the same hash on every machine and in every run."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec

from ratchet.types.errors import InputError

HASH_LENGTH = 32
"""Number of hex digits used of a SHA-256 (128 bits)."""


def canonical_json(value: Any) -> bytes:
    """Encode builtin data or msgspec structs as JSON with sorted keys.

    Raises:
        InputError: A float is NaN or infinite (msgspec would write null), a string is not valid
            Unicode, or a value has no JSON form.
    """
    try:
        builtins = msgspec.to_builtins(value, str_keys=True, order="sorted")  # sets are unordered
        _refuse_non_finite(builtins)
        return msgspec.json.encode(builtins, order="sorted")
    except (UnicodeEncodeError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(f"A value has no JSON form: {error}.") from None


def content_hash(value: Any) -> str:
    """Return the hash of the canonical JSON of `value`, as 32 hex digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()[:HASH_LENGTH]


def _refuse_non_finite(value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{value} has no JSON form; use a finite number.")
    if isinstance(value, dict):
        for item in value.values():
            _refuse_non_finite(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _refuse_non_finite(item)
