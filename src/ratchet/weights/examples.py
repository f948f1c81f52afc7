"""Examples: token sequences to imitate or to prefer."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class TokenExample(msgspec.Struct, frozen=True):
    """A conversation in tokens, with a mask of those to learn."""

    ids: Sequence[int]
    """Token ids, at least two."""
    mask: Sequence[bool]
    """Whether each token is learned; as long as `ids`, False at the first."""


class PreferencePair(msgspec.Struct, frozen=True):
    """Two continuations of a prompt, of which the first is better."""

    chosen: TokenExample
    rejected: TokenExample
