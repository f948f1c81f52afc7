"""A pass of the model over rows: the probability of each trained token, and the state that
predicted it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ratchet.weights.packing import TokenRow, packed

_ENTROPY_CHUNK = 512
"""Tokens whose entropy is computed at a time: its temporaries are as large as the logits."""


class Reading(NamedTuple):
    """Tensors over the trained tokens of some rows, row by row."""

    logprobs: Any
    """Shape (tokens,), float32; with gradient if the pass had one."""
    entropy: Any
    """Shape (tokens,), float32, in nats; without gradient. None unless asked for."""
    hidden: Any
    """Shape (tokens, hidden size): the states that predicted the tokens."""
    counts: tuple[int, ...]
    """Trained tokens of each row."""


def read(model: Any, rows: Sequence[TokenRow], *, entropy: bool = False) -> Reading:
    """Run a causal language model of transformers over rows.

    The output layer is applied to the states that predict trained tokens, and to no others: with
    large vocabularies it costs most of the time and memory. The model's own code applies it, so
    whatever it does to logits stays as it is. The softmax is computed in float32.
    """
    import torch

    layout = packed(rows)
    device = model.get_input_embeddings().weight.device
    places = torch.from_numpy(layout.predicting).to(device)
    targets = torch.from_numpy(layout.targets).to(device)
    hidden_states: list[Any] = []

    def keep(_head: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        hidden = arguments[0].flatten(0, 1).index_select(0, places)
        hidden_states.append(hidden)
        return (hidden.unsqueeze(0), *arguments[1:])

    hook = model.get_output_embeddings().register_forward_pre_hook(keep)
    try:
        logits = model(
            input_ids=torch.from_numpy(layout.ids).to(device),
            position_ids=torch.from_numpy(layout.positions).to(device),
            use_cache=False,
        ).logits[0]
    finally:
        hook.remove()
    logits = logits.float()
    total = torch.logsumexp(logits, -1)
    logprobs = logits.gather(1, targets.unsqueeze(1)).squeeze(1) - total
    return Reading(
        logprobs,
        _entropy(logits.detach(), total.detach()) if entropy else None,
        hidden_states[0],
        layout.counts,
    )


def _entropy(logits: Any, total: Any) -> Any:
    """Entropy of each distribution: log Σ exp(z) − Σ p·z."""
    import torch

    entropies = [
        part_total - ((part - part_total.unsqueeze(1)).exp() * part).sum(-1)
        for part, part_total in zip(
            logits.split(_ENTROPY_CHUNK), total.split(_ENTROPY_CHUNK), strict=True
        )
    ]
    return torch.cat(entropies)
