"""Which model call of an attempt continues which, found from their tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ratchet.types import Transition

ID_BYTES = 4
"""Bytes of a packed token id."""


class KnownPrefix(NamedTuple):
    """A transition whose prompt and response may be a prefix of another's prompt."""

    id: str
    size: int
    """Tokens of its prompt and response."""


def digest_of(ids: bytes) -> bytes:
    """A hash of packed token ids."""
    return hashlib.sha256(ids).digest()[:16]


def base_of(prompt: bytes, by_digest: Mapping[tuple[int, bytes], str]) -> KnownPrefix | None:
    """The longest of the known token sequences that a prompt begins with.

    Args:
        prompt: Packed ids.
        by_digest: Transition by size and digest of its prompt and response.
    """
    longest = None
    hashing, at = hashlib.sha256(), 0
    for size in sorted({size for size, _ in by_digest if 0 < size <= len(prompt) // ID_BYTES}):
        end = size * ID_BYTES
        hashing.update(prompt[at:end])
        at = end
        id = by_digest.get((size, hashing.digest()[:16]))
        if id is not None:
            longest = KnownPrefix(id, size)
    return longest


def call_of(id: str) -> str:
    """Id of the call that a transition belongs to: its own id without the number of the choice."""
    return id.partition(".")[0]


def in_order(transitions: Iterable[Transition]) -> list[Transition]:
    """The transitions of one attempt in the order of their calls, with `call_index` and `parent`.

    A continuation is recognised by its tokens alone. If a template writes the past anew, as one
    that strips a model's earlier thoughts, the call begins a branch. So does a call of another
    role, or of an engine with another tokenizer.
    """
    ordered = sorted(transitions, key=lambda transition: (transition.started_ns, transition.id))
    index: dict[str, int] = {}
    for transition in ordered:
        index.setdefault(call_of(transition.id), len(index))
    earlier: dict[tuple[str, str], list[tuple[bytes, Transition]]] = {}
    placed: list[Transition] = []
    for transition in ordered:
        same = earlier.setdefault((transition.role, transition.tokenizer), [])
        parent = None if transition.drop else _parent(transition, same)
        placed.append(
            msgspec.structs.replace(
                transition, call_index=index[call_of(transition.id)], parent=parent
            )
        )
        if not transition.drop:
            same.append((transition.prompt_ids + transition.response_ids, transition))
    return placed


def _parent(transition: Transition, earlier: Sequence[tuple[bytes, Transition]]) -> str | None:
    best: tuple[int, str] | None = None
    prompt, call = transition.prompt_ids, call_of(transition.id)
    for ids, previous in earlier:
        if (
            ids
            and (best is None or len(ids) >= best[0])
            and prompt.startswith(ids)
            and call_of(previous.id) != call
        ):
            best = (len(ids), previous.id)
    return None if best is None else best[1]
