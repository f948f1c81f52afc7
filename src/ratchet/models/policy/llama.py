"""The forward pass of Llama and its relatives with few calls into PyTorch.

On small models most of the time is what a call costs, not what it computes. The projections of
queries, keys and values are one product here, and so are those of gate and up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ratchet.models.policy import lora
from ratchet.models.policy.attention import attend
from ratchet.models.policy.batch import TokenBatch
from ratchet.models.policy.cache import KeyValueCache
from ratchet.models.policy.lora import LoadedAdapter

MODELS = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")


FUSED_LAYERS = (
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    ("self_attn.o_proj",),
    ("mlp.gate_proj", "mlp.up_proj"),
    ("mlp.down_proj",),
)
"""Linear layers that are a single product here."""


def is_llama_like(model: Any) -> bool:
    """Whether `LlamaForward` computes the same as a model of transformers."""
    config = model.config
    kinds = getattr(config, "layer_types", None) or ["full_attention"]
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        type(model).__name__ in MODELS
        and config.hidden_act == "silu"
        and set(kinds) == {"full_attention"}
        and getattr(config, "sliding_window", None) is None
        and rope.get("rope_type", "default") in ("default", "linear", "llama3", "yarn")
        and model.model.layers[0].mlp.gate_proj.bias is None
        and model.model.layers[0].self_attn.o_proj.bias is None
    )


@dataclass
class _Layer:
    norm: Any
    projection: Any
    """Of queries, keys and values: [(heads + 2 × kv heads) × width, hidden]."""
    bias: Any
    query_norm: Any
    key_norm: Any
    out: Any
    mlp_norm: Any
    gate_up: Any
    """[2 × intermediate, hidden]"""
    down: Any
    modules: tuple[dict[str, int], ...]
    """Names and output sizes of the layers that `projection`, `out`, `gate_up` and `down` join."""


class LlamaForward:
    """Runs a Llama or a relative of it on a batch.

    The model stays as it is: its projections become parts of the joined ones, not copies.

    Args:
        model: A model for which `is_llama_like` holds.
        cache: Keys and values.
        context: Longest sequence.
        independent: Whether a row's result may not depend on the other rows.
    """

    def __init__(
        self, model: Any, cache: KeyValueCache, context: int, *, independent: bool
    ) -> None:
        import torch

        inner, config = model.model, model.config
        self.model, self.cache, self.independent = model, cache, independent
        first = inner.layers[0].self_attn
        self._width: int = first.head_dim
        self._heads: int = config.num_attention_heads
        self._kv_heads: int = config.num_key_value_heads
        self._scale: float = first.scaling
        self._hidden: int = config.hidden_size
        self._eps: float = config.rms_norm_eps
        self._layers = [
            _joined(layer, f"model.layers.{number}") for number, layer in enumerate(inner.layers)
        ]
        self._adapters: dict[str, list[tuple[tuple[Any, Any] | None, ...]]] = {}
        weight = inner.embed_tokens.weight
        places = torch.arange(context, device=weight.device)
        cos, sin = inner.rotary_emb(weight[:1][None], position_ids=places[None])
        half = self._width // 2
        # The sign of a rotation's first half is in the table, so that the halves just swap.
        signed = torch.cat([-sin[0, :, :half], sin[0, :, half:]], -1)
        self._rotation = torch.stack([cos[0], signed], 1)[:, :, None]

    def adapted(self, adapter: LoadedAdapter) -> None:
        """Prepare for an adapter: join its matrices in the same way as the model's."""
        if adapter.version not in self._adapters:
            self._adapters[adapter.version] = [
                tuple(_join(adapter, modules) for modules in layer.modules)
                for layer in self._layers
            ]

    def forgotten(self, adapter: LoadedAdapter) -> None:
        """Drop what was prepared for an adapter."""
        self._adapters.pop(adapter.version, None)

    def __call__(self, batch: TokenBatch, rows: list[int] | None) -> Any:
        """Scores of all tokens after the given rows (None: all), float32: [n, vocabulary]."""
        from torch.nn.functional import rms_norm

        adapters = [(self._adapters[adapter.version], places) for adapter, places in batch.adapters]
        rotation = self._rotation.index_select(0, batch.positions)
        cos, sin = rotation[:, 0], rotation[:, 1]
        x = self.model.model.embed_tokens.weight.index_select(0, batch.ids)
        for number, layer in enumerate(self._layers):
            parts = [(of[number], places) for of, places in adapters]
            x = self._block(number, layer, x, cos, sin, batch, parts)
        if rows is not None:
            x = x[rows]
        x = rms_norm(x, (self._hidden,), self.model.model.norm.weight, self._eps)
        return self.model.lm_head(x).float()

    def _block(
        self,
        number: int,
        layer: _Layer,
        x: Any,
        cos: Any,
        sin: Any,
        batch: TokenBatch,
        parts: list[tuple[Any, Any]],
    ) -> Any:
        import torch
        from torch.nn.functional import linear, rms_norm, silu

        heads, turned = self._heads, self._heads + self._kv_heads
        y = rms_norm(x, (self._hidden,), layer.norm, self._eps)
        flat = linear(y, layer.projection, layer.bias)
        self._adapt(flat, y, parts, 0)
        per_head = flat.view(len(x), -1, self._width)
        both = per_head[:, :turned]
        if layer.query_norm is not None:
            both[:, :heads] = rms_norm(both[:, :heads], (self._width,), layer.query_norm, self._eps)
            both[:, heads:] = rms_norm(both[:, heads:], (self._width,), layer.key_norm, self._eps)
        swapped = both.roll(self._width // 2, -1)
        torch.addcmul(both * cos, swapped, sin, out=both)
        self.cache.write(number, batch.cells, per_head[:, heads:])
        y = attend(self.cache, number, batch, per_head[:, :heads], self._scale)
        x = self._add(x, y, layer.out, parts, 1)
        y = rms_norm(x, (self._hidden,), layer.mlp_norm, self._eps)
        wide = linear(y, layer.gate_up)
        self._adapt(wide, y, parts, 2)
        gate, up = wide.chunk(2, -1)
        return self._add(x, silu(gate).mul_(up), layer.down, parts, 3)

    def _add(self, x: Any, y: Any, weight: Any, parts: list[tuple[Any, Any]], which: int) -> Any:
        """x + weight · y, with the adapters' part."""
        import torch

        out = torch.addmm(x, y, weight.t())
        self._adapt(out, y, parts, which)
        return out

    def _adapt(self, out: Any, inputs: Any, parts: list[tuple[Any, Any]], which: int) -> None:
        if parts:
            updates = [(*of[which], rows) for of, rows in parts if of[which] is not None]
            lora.apply(out, inputs, updates, independent=self.independent)


def _joined(layer: Any, name: str) -> _Layer:
    """A layer's weights, with the model's own projections as parts of the joined ones."""
    attention, mlp = layer.self_attn, layer.mlp
    three = [attention.q_proj, attention.k_proj, attention.v_proj]
    biases = [module.bias for module in three]
    return _Layer(
        norm=layer.input_layernorm.weight,
        projection=_share(three, "weight"),
        bias=None if biases[0] is None else _share(three, "bias"),
        query_norm=getattr(getattr(attention, "q_norm", None), "weight", None),
        key_norm=getattr(getattr(attention, "k_norm", None), "weight", None),
        out=attention.o_proj.weight,
        mlp_norm=layer.post_attention_layernorm.weight,
        gate_up=_share([mlp.gate_proj, mlp.up_proj], "weight"),
        down=mlp.down_proj.weight,
        modules=tuple(
            {f"{name}.{part}": layer.get_submodule(part).out_features for part in parts}
            for parts in FUSED_LAYERS
        ),
    )


def _share(modules: list[Any], what: str) -> Any:
    """One tensor of the modules' weights, which become parts of it."""
    import torch

    parts = [getattr(module, what).data for module in modules]
    tensor = torch.cat(parts)
    for module, part in zip(modules, tensor.split([len(part) for part in parts]), strict=True):
        getattr(module, what).data = part
    return tensor


def _join(adapter: LoadedAdapter, modules: dict[str, int]) -> tuple[Any, Any] | None:
    """The joined A and B of neighbouring projections: A stacked, B block-diagonal.

    Args:
        adapter: The adapter.
        modules: Number of outputs of each projection, by its name.

    Returns:
        A [r, in] and B [out, r] with r the sum of the ranks; None if it changes none of them.
    """
    import torch

    pairs = {name: adapter.layers.get(name) for name in modules}
    changed = [pair for pair in pairs.values() if pair is not None]
    if len(modules) == 1 or not changed:
        return changed[0] if changed else None
    a = torch.cat([pair[0] for pair in changed])
    b = a.new_zeros(sum(modules.values()), len(a))
    row = column = 0
    for name, rows in modules.items():
        if (pair := pairs[name]) is not None:
            r = len(pair[0])
            b[row : row + rows, column : column + r] = pair[1]
            column += r
        row += rows
    return a, b
