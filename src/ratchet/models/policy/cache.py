"""The keys and values of running sequences: a slot each, whose size grows with the longest."""

from __future__ import annotations

from typing import Any

from ratchet.models.failure import ModelUnavailable
from ratchet.models.memory import as_megabytes, bytes_available
from ratchet.types.wording import counted

FIRST_CAPACITY = 256
"""Initial tokens of each slot; doubled when a sequence needs more."""


class KeyValueCache:
    """Keys and values by layer, slot and position.

    The slot after the last takes what rows without a sequence write.

    Args:
        layers: Number of layers.
        slots: Sequences at once.
        heads: Heads of keys and values.
        width: Numbers of a head.
        dtype: torch's type of the numbers.
        device: torch's device.
    """

    def __init__(
        self, *, layers: int, slots: int, heads: int, width: int, dtype: Any, device: Any
    ) -> None:
        import torch

        self._torch = torch
        self._layers, self.slots, self._heads, self._width = layers, slots, heads, width
        self._dtype, self._device = dtype, device
        self.capacity = 0
        """Tokens that each slot has room for: a power of two."""
        self.cells: list[Any] = []
        """Of each layer: [slots + 1, capacity, 2, heads, width]; 2 is keys and values."""
        self.mask: Any = None
        """[slots + 1, capacity]: 0 where a slot has a token, else minus infinity."""
        self.reserve(FIRST_CAPACITY)

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token of a sequence takes."""
        size: int = self._torch.empty((), dtype=self._dtype).element_size()
        return self._layers * 2 * self._heads * self._width * size

    def reserve(self, tokens: int) -> None:
        """Make room for `tokens` in every slot.

        Raises:
            ModelUnavailable: The memory does not suffice; nothing was changed.
        """
        capacity = max(self.capacity, FIRST_CAPACITY)
        while capacity < tokens:
            capacity *= 2
        if capacity == self.capacity:
            return
        torch = self._torch
        # The largest need is while a layer's old cells and its new ones exist.
        needed = self.bytes_per_token * (self.slots + 1) * (capacity - self.capacity)
        free = bytes_available() if self._device.type == "cpu" else None
        if free is not None and needed > free:
            raise self._short(tokens, needed, free)
        shape = (self.slots + 1, capacity, 2, self._heads, self._width)
        old, self.cells = self.cells, []
        try:
            mask = torch.full(shape[:2], -torch.inf, dtype=self._dtype, device=self._device)
            for layer in range(self._layers):
                grown = torch.zeros(shape, dtype=self._dtype, device=self._device)
                if old:
                    grown[:, : self.capacity] = old[layer]
                self.cells.append(grown)
        except (RuntimeError, MemoryError):  # torch.OutOfMemoryError is a RuntimeError
            self.cells = old
            raise self._short(tokens, needed, 0) from None
        if self.mask is not None:
            mask[:, : self.capacity] = self.mask
        self.mask, self.capacity = mask, capacity

    def _short(self, tokens: int, needed: int, free: int) -> ModelUnavailable:
        return ModelUnavailable(
            f"There is not enough memory for sequences of {counted(tokens, 'token')} in "
            f"{self.slots} slots: {as_megabytes(needed)} more is needed, and "
            f"{as_megabytes(free)} is available.",
            hint="Lower --slots or --context of ratchet model.",
        )

    def write(self, layer: int, rows: Any, pairs: Any) -> None:
        """Store keys and values of a batch.

        Args:
            layer: Of the model.
            rows: Place of each token: slot × capacity + position. [N]
            pairs: Keys and values: [N, 2 × heads, width].
        """
        flat = self.cells[layer].view(-1, 2 * self._heads, self._width)
        flat.index_copy_(0, rows, pairs)

    def clear(self, slot: int) -> None:
        """Forget what a slot holds."""
        self.mask[slot] = -self._torch.inf

    def move(self, source: int, target: int, tokens: int) -> None:
        """Move the first `tokens` of a slot to another."""
        for cells in self.cells:
            cells[target, :tokens] = cells[source, :tokens]
        self.mask[target] = self.mask[source]
        self.clear(source)

    def take(self, slot: int, tokens: int) -> list[Any]:
        """A copy of a slot's first tokens, by layer: [tokens, 2, heads, width]."""
        return [cells[slot, :tokens].clone() for cells in self.cells]

    def put(self, slot: int, tokens: int, copied: list[Any]) -> None:
        """Make the first `tokens` of `copied` those of a slot that was cleared."""
        for cells, content in zip(self.cells, copied, strict=True):
            cells[slot, :tokens] = content[:tokens]
        self.mask[slot, :tokens] = 0
