"""Attention of a batch's tokens to the cached keys and values of their own sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ratchet.models.policy.batch import TokenBatch, TokenSpan
from ratchet.models.policy.cache import KeyValueCache

MIN_PADDED_LENGTH = 64
"""Smallest length that sequences are rounded up to, for results independent of the batch."""

WASTE = 4
"""Decoding rows are computed together unless that reads over this many times as much."""


@dataclass(frozen=True)
class RowGroup:
    """Rows whose sequences are rounded up to the same length."""

    rows: Any
    """[n]"""
    slots: Any
    """[n]"""
    length: int
    mask: Any
    """[n, 1, 1, length]"""


def prepare(batch: TokenBatch, cache: KeyValueCache) -> None:
    """Make the masks of the spans, which are the same for all layers."""
    import torch

    for span in batch.spans:
        if span.start == 0 or span.count == 1:
            batch.masks.append(None)
        else:
            key_positions = torch.arange(span.start + span.count, device=cache.mask.device)
            own = torch.arange(span.start, span.start + span.count, device=cache.mask.device)
            batch.masks.append(key_positions[None, :] <= own[:, None])


def prepare_groups(batch: TokenBatch, rows: list[tuple[int, int]], cache: KeyValueCache) -> None:
    """Group rows by their rounded length, so that the result of each depends on it alone.

    Args:
        batch: The batch, whose rows after `rows` are padding.
        rows: Slot and position of each row.
        cache: The cache.
    """
    import torch

    by_length: dict[int, list[int]] = {}
    for row, (_, position) in enumerate(rows):
        length = MIN_PADDED_LENGTH
        while length <= position:
            length *= 2
        by_length.setdefault(length, []).append(row)
    device = cache.mask.device
    for length, members in sorted(by_length.items()):
        places = torch.tensor([rows[row][1] for row in members], device=device)
        beyond = torch.arange(length, device=device)[None, :] > places[:, None]
        mask = torch.zeros(beyond.shape, dtype=cache.mask.dtype, device=device)
        mask.masked_fill_(beyond, -torch.inf)
        batch.groups.append(
            RowGroup(
                rows=torch.tensor(members, device=device),
                slots=torch.tensor([rows[row][0] for row in members], device=device),
                length=length,
                mask=mask[:, None, None, :],
            )
        )


def attend(cache: KeyValueCache, layer: int, batch: TokenBatch, queries: Any, scale: float) -> Any:
    """Attention of each row to its own sequence, up to itself.

    Args:
        cache: The cache, with this batch's keys and values already written.
        layer: Of the model.
        batch: What the rows are.
        queries: [N, heads, width]
        scale: What scores are multiplied by.

    Returns:
        [N, heads × width]
    """
    from torch.nn.functional import scaled_dot_product_attention

    cells = cache.cells[layer]
    count, heads, width = queries.shape
    if batch.groups:
        return _by_groups(cells, batch, queries, scale)
    kv_heads = cells.shape[3]
    out = []
    if batch.decoding:
        # Queries that share keys are taken for as many tokens of one head.
        cached = cells[: batch.decoding, : batch.length]
        out.append(
            scaled_dot_product_attention(
                queries[: batch.decoding].view(-1, kv_heads, heads // kv_heads, width),
                cached[:, :, 0].transpose(1, 2),
                cached[:, :, 1].transpose(1, 2),
                attn_mask=cache.mask[: batch.decoding, None, None, : batch.length],
                scale=scale,
            ).reshape(batch.decoding, -1)
        )
    for span, mask in zip(batch.spans, batch.masks, strict=True):
        out.append(_span(cells, span, mask, queries, scale))
    if len(out) == 1 and len(out[0]) == count:
        return out[0]
    import torch

    padding = count - sum(map(len, out))
    if padding:
        out.append(queries.new_zeros(padding, heads * width))
    return torch.cat(out)


def _span(cells: Any, span: TokenSpan, mask: Any, queries: Any, scale: float) -> Any:
    from torch.nn.functional import scaled_dot_product_attention

    cached = cells[span.slot, : span.start + span.count]
    kv_heads = cached.shape[2]
    _, heads, width = queries.shape
    own = queries[span.row : span.row + span.count]
    if span.count == 1:
        attended = scaled_dot_product_attention(
            own.view(1, kv_heads, heads // kv_heads, width),
            cached[None, :, 0].transpose(1, 2),
            cached[None, :, 1].transpose(1, 2),
            scale=scale,
        )
        return attended.reshape(1, -1)
    attended = scaled_dot_product_attention(
        own.transpose(0, 1)[None],
        cached[None, :, 0].transpose(1, 2),
        cached[None, :, 1].transpose(1, 2),
        attn_mask=mask,
        is_causal=mask is None,
        scale=scale,
        enable_gqa=heads != kv_heads,
    )
    return attended[0].transpose(0, 1).reshape(span.count, -1)


def _by_groups(cells: Any, batch: TokenBatch, queries: Any, scale: float) -> Any:
    count, heads, width = queries.shape
    kv_heads = cells.shape[3]
    out = queries.new_zeros(count, heads * width)
    for group in batch.groups:
        cached = cells[:, : group.length].index_select(0, group.slots)
        own = queries.index_select(0, group.rows).view(-1, kv_heads, heads // kv_heads, width)
        # Contiguous for any number of rows: products are computed in another order if not.
        keys = cached[:, :, 0].transpose(1, 2).contiguous()
        values = cached[:, :, 1].transpose(1, 2).contiguous()
        scores = (own * scale) @ keys.transpose(-1, -2)
        attended = (scores + group.mask).softmax(-1) @ values
        out.index_copy_(0, group.rows, attended.reshape(len(attended), -1))
    return out
