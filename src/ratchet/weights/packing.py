"""Packing: sequences of tokens laid out in a rectangle with little padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class TokenRow(Protocol):
    """A sequence of tokens, some of which are trained."""

    @property
    def ids(self) -> Sequence[int] | NDArray[np.int32]:
        """Token ids."""
        ...

    @property
    def mask(self) -> Sequence[bool] | NDArray[np.bool_]:
        """Whether each token is trained; as long as `ids`."""
        ...


class PackedRows(NamedTuple):
    """Rows in a rectangle of B lines of width W. Several rows can share a line.

    The rows of a line do not see each other: the positions begin at 0 with each, by which
    transformers tells them apart.
    """

    ids: NDArray[np.int64]
    """Shape (B, W); 0 if there is padding."""
    positions: NDArray[np.int64]
    """Shape (B, W); place of each token in its row."""
    predicting: NDArray[np.int64]
    """Shape (N,): places, in the flattened rectangle, that predict the N trained tokens, row by
    row in the order of the rows."""
    targets: NDArray[np.int64]
    """Shape (N,); the trained tokens."""
    counts: tuple[int, ...]
    """Trained tokens of each row; they sum to N."""


def packed(rows: Sequence[TokenRow]) -> PackedRows:
    """Lay rows out in lines as wide as the longest row, longest first."""
    lengths = [len(row.ids) for row in rows]
    width = max(lengths)
    lines: list[int] = []
    places = [0] * len(rows)
    for i in sorted(range(len(rows)), key=lambda i: (-lengths[i], i)):
        line = next((n for n, used in enumerate(lines) if used + lengths[i] <= width), None)
        if line is None:
            line = len(lines)
            lines.append(0)
        places[i] = line * width + lines[line]
        lines[line] += lengths[i]
    ids = np.zeros(len(lines) * width, np.int64)
    positions = np.tile(np.arange(width), len(lines))
    predicting, targets, counts = [], [], []
    for row, place, length in zip(rows, places, lengths, strict=True):
        row_ids = np.asarray(row.ids, np.int64)
        ids[place : place + length] = row_ids
        positions[place : place + length] = np.arange(length)
        trained = np.flatnonzero(np.asarray(row.mask, bool))
        predicting.append(place + trained - 1)
        targets.append(row_ids[trained])
        counts.append(len(trained))
    # Padding follows the last row of its line as if it belonged to it: nothing looks ahead to it.
    for line, used in enumerate(lines):
        if 0 < used < width:
            start = line * width + used
            first = positions[start - 1] + 1
            positions[start : (line + 1) * width] = first + np.arange(width - used)
    shape = (len(lines), width)
    return PackedRows(
        ids.reshape(shape),
        positions.reshape(shape),
        np.concatenate(predicting),
        np.concatenate(targets),
        tuple(counts),
    )


def micro_batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Split a batch into parts of at most `tokens` each, padded to their longest row.

    Args:
        lengths: Tokens of each item.
        tokens: Bound of a part, unless a single item exceeds it.

    Yields:
        Indices of the items of each part, similar lengths together, the longest first: if memory
        does not suffice, the first part shows it.
    """
    part: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if part and lengths[part[0]] * (len(part) + 1) > tokens:
            yield part
            part = []
        part.append(i)
    if part:
        yield part
