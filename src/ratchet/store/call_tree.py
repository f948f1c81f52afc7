"""Which model call of an attempt continues which: found in their tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ratchet.types import Transition

ID_BYTES = 4
"""Bytes of a packed token id."""


class KnownPrefix(NamedTuple):
    """A transition whose prompt and response may begin another's prompt."""

    id: str
    size: int
    """Tokens of its prompt and response."""


def digest_of(ids: bytes) -> bytes:
    """A hash of packed token ids."""
    return hashlib.sha256(ids).digest()[:16]


def base_of(prompt: bytes, known: Mapping[tuple[int, bytes], str]) -> KnownPrefix | None:
    """The longest of the known token sequences that a prompt begins with.

    Args:
        prompt: Packed ids.
        known: Transition by size and digest of its prompt and response.
    """
    found = None
    hashing, at = hashlib.sha256(), 0
    for size in sorted({size for size, _ in known if 0 < size <= len(prompt) // ID_BYTES}):
        end = size * ID_BYTES
        hashing.update(prompt[at:end])
        at = end
        id = known.get((size, hashing.digest()[:16]))
        if id is not None:
            found = KnownPrefix(id, size)
    return found


def call_of(id: str) -> str:
    """Id of the call that a transition belongs to: its own without the number of the choice."""
    return id.partition(".")[0]


def in_order(transitions: Iterable[Transition]) -> list[Transition]:
    """The transitions of one attempt in the order of their calls, with `call_index` and `parent`.

    A continuation is recognised by its tokens alone. If a template writes the past anew, as one
    that strips a model's earlier thoughts, the call begins a branch. So does a call of another
    role, or of an engine with another tokenizer.
    """
    ordered = sorted(transitions, key=lambda one: (one.started_ns, one.id))
    index: dict[str, int] = {}
    for one in ordered:
        index.setdefault(call_of(one.id), len(index))
    earlier: dict[tuple[str, str], list[tuple[bytes, Transition]]] = {}
    placed: list[Transition] = []
    for one in ordered:
        same = earlier.setdefault((one.role, one.tokenizer), [])
        parent = None if one.drop else _parent(one, same)
        placed.append(
            msgspec.structs.replace(one, call_index=index[call_of(one.id)], parent=parent)
        )
        if not one.drop:
            same.append((one.prompt_ids + one.response_ids, one))
    return placed


def _parent(one: Transition, earlier: Sequence[tuple[bytes, Transition]]) -> str | None:
    best: tuple[int, str] | None = None
    prompt, call = one.prompt_ids, call_of(one.id)
    for ids, other in earlier:
        if (
            ids
            and (best is None or len(ids) >= best[0])
            and prompt.startswith(ids)
            and call_of(other.id) != call
        ):
            best = (len(ids), other.id)
    return None if best is None else best[1]
