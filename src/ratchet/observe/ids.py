"""Ids of traces and spans, drawn from a source that is nobody else's.

The global `random` would give an agent that seeds it the same ids again, and its random numbers
would change when it is traced.
"""

from __future__ import annotations

import os
import random
import secrets

_source = random.Random(secrets.randbits(256))  # noqa: S311 - unique, not secret
_bits = _source.getrandbits

# Else a child process would draw the ids that its parent draws.
os.register_at_fork(after_in_child=lambda: _source.seed(secrets.randbits(256)))


def new_span_id() -> int:
    """A number of 64 bits, not zero."""
    return _bits(64) or 1


def new_trace_id() -> int:
    """A number of 128 bits, not zero."""
    return _bits(128) or 1
