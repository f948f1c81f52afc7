"""Luck that depends on nothing but the seed and what was asked."""

from __future__ import annotations

import hashlib
import random


def draw(*parts: object) -> float:
    """A number in [0, 1) that is the same for the same parts."""
    text = "\x1f".join(str(part) for part in parts)
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def dice(*parts: object) -> random.Random:
    """A generator that throws the same for the same parts."""
    return random.Random(draw(*parts))
