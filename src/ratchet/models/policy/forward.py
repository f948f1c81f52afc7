"""The forward pass of any causal language model of transformers over a batch."""

from __future__ import annotations

import threading
from typing import Any

from ratchet.models.failure import ModelUnavailable
from ratchet.models.policy import lora
from ratchet.models.policy.attention import attend
from ratchet.models.policy.batch import TokenBatch
from ratchet.models.policy.cache import KeyValueCache
from ratchet.models.policy.lora import LoadedAdapter

ATTENTION = "ratchet_policy"
"""Name of Ratchet's attention in transformers."""

_running = threading.local()
"""The forward pass of this thread."""


class ModelForward:
    """Runs transformers' own layers on the tokens of many sequences, with Ratchet's attention.

    transformers lets attention be replaced by name; ours reads the cache. Linear layers that
    adapters change get their part. The model belongs to this object from then on.

    Args:
        model: A causal language model of transformers.
        cache: Keys and values.
        independent: Whether a row's result may not depend on the other rows.

    """

    def __init__(self, model: Any, cache: KeyValueCache, *, independent: bool) -> None:
        self.model, self.cache, self.independent = model, cache, independent
        self.batch: TokenBatch | None = None
        self.window: int | None = None
        """Smallest sliding window of the layers, in tokens, once a batch was read; None if none has
        one."""
        self.attended = 0
        """Layers whose attention was Ratchet's."""
        self._wrapped: set[str] = set()
        _register()
        model.set_attn_implementation(ATTENTION)

    def adapted(self, adapter: LoadedAdapter) -> None:
        """Prepare for an adapter: its linear layers look for the batch's adapters."""
        for name in adapter.layers.keys() - self._wrapped:
            self._wrap(name)

    def __call__(self, batch: TokenBatch, rows: list[int] | None) -> Any:
        """Scores of all tokens after the given rows (None: all), float32: [n, vocabulary]."""
        import torch

        keep: Any = 0
        if rows is not None:
            keep = torch.tensor(rows, dtype=torch.long, device=batch.ids.device)
        _running.forward, self.batch = self, batch
        try:
            out = self.model(
                input_ids=batch.ids[None],
                position_ids=batch.positions[None],
                use_cache=False,
                logits_to_keep=keep,
            )
            return out.logits[0].float()
        finally:
            _running.forward = self.batch = None

    def forgotten(self, adapter: LoadedAdapter) -> None:
        """Nothing was prepared for an adapter alone."""

    def _wrap(self, name: str) -> None:
        module = self.model.get_submodule(name)
        plain = module.forward

        def forward(inputs: Any) -> Any:
            out = plain(inputs)
            assert self.batch is not None
            parts = [
                (*adapter.layers[name], rows)
                for adapter, rows in self.batch.adapters
                if name in adapter.layers
            ]
            if parts:
                flat = inputs.reshape(-1, inputs.shape[-1])
                lora.apply(out.view(-1, out.shape[-1]), flat, parts, independent=self.independent)
            return out

        module.forward = forward
        self._wrapped.add(name)


def _register() -> None:
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, _attention)


def _attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Any = None,
    **_: Any,
) -> tuple[Any, None]:
    """Attention as transformers calls it: [1, heads, N, width] in, [1, N, heads × width] out."""
    import torch

    running: ModelForward = _running.forward
    cache = running.cache
    if softcap is not None or s_aux is not None or key.shape[-1] != value.shape[-1]:
        raise ModelUnavailable(
            f"{type(running.model).__name__} computes attention in a way that is not supported.",
            hint="Only attention without soft caps and sinks, with keys as wide as values, is "
            "supported.",
        )
    if sliding_window is not None:
        running.window = min(sliding_window, running.window or sliding_window)
    running.attended += 1
    assert running.batch is not None
    pairs = torch.cat([key[0], value[0]]).transpose(0, 1)
    cache.write(module.layer_idx, running.batch.cells, pairs)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    queries = query[0].transpose(0, 1).contiguous()
    return attend(cache, module.layer_idx, running.batch, queries, scale)[None], None
