"""Examples: token sequences to imitate or to prefer."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class TokenExample(msgspec.Struct, frozen=True):
    """A conversation as tokens, with a mask of the tokens to learn."""

    ids: Sequence[int]
    """At least two token ids."""
    mask: Sequence[bool]
    """Whether each token is learned; of the same length as `ids`, and False for the first."""


class PreferencePair(msgspec.Struct, frozen=True):
    """Two continuations of a prompt, of which the first is better."""

    chosen: TokenExample
    rejected: TokenExample
