"""LoRA adapters in memory, and their part of a linear layer for the rows that use them.

LoRA: Hu et al. 2021, https://arxiv.org/abs/2106.09685
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet.models.failure import ModelUnavailable
from ratchet.models.policy.adapter_folder import WEIGHTS, adapter_hash, read_adapter_config
from ratchet.models.policy.base import Base

_PREFIX = "base_model.model."


@dataclass(frozen=True)
class LoadedAdapter:
    """An adapter's matrices by the name of the linear layer: A [r, in], and B [out, r] scaled."""

    version: str
    """Content hash of the adapter."""
    layers: dict[str, tuple[Any, Any]]
    bytes: int


def check_adapter(folder: Path, base: Base) -> str:
    """Check that an adapter fits this base; return its version.

    Raises:
        ModelUnavailable: It is absent, broken, not supported or of another base.
    """
    fingerprint = read_adapter_config(folder).base_model_name_or_path
    if fingerprint != base.fingerprint:
        raise ModelUnavailable(
            f"The adapter in {folder} was trained on the base {fingerprint}, but {base.name} is "
            f"{base.fingerprint}.",
            hint="Serve the base that it was trained on. An adapter names its base by "
            "fingerprint as base_model_name_or_path in adapter_config.json.",
        )
    return adapter_hash(folder)


def load_adapter(folder: Path, base: Base) -> LoadedAdapter:
    """Load an adapter for a base model.

    Raises:
        ModelUnavailable: As `check_adapter`, or a tensor fits no layer of the base.
    """
    from torch.nn import Linear

    version = check_adapter(folder, base)
    config = read_adapter_config(folder)
    pairs: dict[str, dict[str, Any]] = {}
    for key, tensor in _tensors(folder).items():
        name, _, matrix = key.removeprefix(_PREFIX).removesuffix(".weight").rpartition(".")
        if matrix not in ("lora_A", "lora_B"):
            raise ModelUnavailable(f"The adapter in {folder} has {key!r}, which is not supported.")
        pairs.setdefault(name, {})[matrix] = tensor
    modules = dict(base.model.named_modules())
    layers: dict[str, tuple[Any, Any]] = {}
    size = 0
    for name, pair in pairs.items():
        module = modules.get(name)
        fits = (
            isinstance(module, Linear)
            and len(pair) == 2
            and pair["lora_A"].shape[1] == module.in_features
            and pair["lora_B"].shape[0] == module.out_features
        )
        if not isinstance(module, Linear) or not fits:
            raise ModelUnavailable(
                f"The adapter in {folder} changes {name!r}, which {base.name} does not have in that"
                " shape.",
                hint="Only adapters of linear layers can be served.",
            )
        r = pair["lora_A"].shape[0]
        alpha = _by_pattern(config.alpha_pattern, name, config.lora_alpha)
        scale = alpha / (math.sqrt(r) if config.use_rslora else r)
        like = module.weight
        a = pair["lora_A"].to(like.device, like.dtype).contiguous()
        b = (pair["lora_B"].to(like.device) * scale).to(like.dtype).contiguous()
        layers[name] = a, b
        size += (a.numel() + b.numel()) * a.element_size()
    return LoadedAdapter(version=version, layers=layers, bytes=size)


def _tensors(folder: Path) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors: dict[str, Any] = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise ModelUnavailable(f"{folder / WEIGHTS} cannot be read: {error}") from None
    return tensors


def _by_pattern(pattern: dict[str, float], name: str, default: float) -> float:
    """As PEFT: a key of a pattern is the end of a layer's name."""
    return next(
        (value for key, value in pattern.items() if name == key or name.endswith(f".{key}")),
        default,
    )


def apply(out: Any, inputs: Any, parts: list[tuple[Any, Any, Any]], *, independent: bool) -> None:
    """Add the adapters' part to the output of a linear layer.

    Args:
        out: [N, out], changed in place.
        inputs: [N, in]
        parts: For each adapter A, B and its rows: None for all, else their indices; where
            `independent`, a mask [N, 1].
        independent: Whether a row's result may not depend on the other rows: each adapter is then
            computed for all rows.
    """
    import torch
    from torch.nn.functional import linear

    for a, b, rows in parts:
        if independent:
            change = linear(linear(inputs, a), b)
            if rows is not None:
                # Not a product: an adapter that diverged must not reach the rows of others.
                change = torch.where(rows, change, 0)
            out.add_(change)
        elif rows is None:
            out.addmm_(linear(inputs, a), b.t())
        else:
            own = linear(linear(inputs.index_select(0, rows), a), b)
            out.index_add_(0, rows, own)
