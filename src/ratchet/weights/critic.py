"""The critic of PPO: a linear head on the model's last states, which estimates returns."""

from __future__ import annotations

from typing import Any


def value_head(hidden_size: int, device: Any) -> Any:
    """A linear layer in float32 that initially estimates 0."""
    import torch

    head = torch.nn.Linear(hidden_size, 1, device=device, dtype=torch.float32)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    return head


def estimates(head: Any, hidden: Any) -> Any:
    """The head's estimates for states of shape (n, hidden size); shape (n,)."""
    return head(hidden.float()).squeeze(-1)
