"""A Llama model and its tokenizer from a GGUF file, as transformers' classes.

transformers reads GGUF itself, but takes the beginning of a turn for its end and does not split
digits in the vocabulary of SmolLM2. So only the model's class is transformers'; the numbers and
the tokenizer are made here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ratchet.models.failure import ModelUnavailable
from ratchet.models.gguf import GgufContents, GgufTensor, read_contents

Array = np.ndarray[Any, Any]

CONTROL = 3
"""Type of tokens that never stand for text, such as `<|im_end|>`."""


def load_gguf(path: Path, dtype: Any) -> tuple[Any, Any]:
    """The model and the tokenizer in a GGUF file.

    Args:
        path: The file.
        dtype: The torch type of the weights.

    Raises:
        ModelUnavailable: It is not a complete GGUF file, or has an architecture, a vocabulary or a
            quantization that is not read here.
    """
    contents = read_contents(path)
    tokenizer = _tokenizer(path, contents.about)
    return _model(path, contents, dtype), tokenizer


def _model(path: Path, contents: GgufContents, dtype: Any) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    about = contents.about
    kind = about.get("general.architecture")
    if kind != "llama":
        raise ModelUnavailable(
            f"{path.name} has the architecture {kind!r}; among GGUF files, only `llama` can be "
            "served with trainable weights.",
            hint="Name a folder with the model in Hugging Face's format instead.",
        )
    heads = about["llama.attention.head_count"]
    kv_heads = about.get("llama.attention.head_count_kv", heads)
    tied = "output.weight" not in contents.tensors
    config = LlamaConfig(
        vocab_size=contents.tensors["token_embd.weight"].shape[0],
        hidden_size=about["llama.embedding_length"],
        intermediate_size=about["llama.feed_forward_length"],
        num_hidden_layers=about["llama.block_count"],
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=about["llama.context_length"],
        rms_norm_eps=about["llama.attention.layer_norm_rms_epsilon"],
        rope_parameters={
            "rope_type": "default",
            "rope_theta": about.get("llama.rope.freq_base", 10_000.0),
        },
        tie_word_embeddings=tied,
        bos_token_id=about.get("tokenizer.ggml.bos_token_id"),
        eos_token_id=about.get("tokenizer.ggml.eos_token_id"),
        pad_token_id=about.get("tokenizer.ggml.padding_token_id"),
    )
    data = np.memmap(path, mode="r")
    state: dict[str, Any] = {}
    for name, tensor in contents.tensors.items():
        values = _values(path, name, tensor, data)
        if name.endswith("attn_q.weight"):
            values = _halves(values, heads)
        elif name.endswith("attn_k.weight"):
            values = _halves(values, kv_heads)
        state[_name(path, name)] = torch.from_numpy(values).to(dtype)
    if tied:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    return LlamaForCausalLM.from_pretrained(None, config=config, state_dict=state, dtype=dtype)


_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def _name(path: Path, name: str) -> str:
    """The name of a tensor in transformers."""
    parts = name.split(".")
    block = f"model.layers.{parts[1]}." if parts[0] == "blk" else ""
    module = _NAMES.get(parts[-2])
    if module is None or parts[-1] != "weight":
        raise ModelUnavailable(
            f"{path.name} has the tensor {name!r}, which Llama models do not have."
        )
    return f"{block}{module}.weight"


def _halves(weight: Array, heads: int) -> Array:
    """Rows in transformers' order: llama.cpp interleaves the two halves of a head's rotation."""
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows, columns))


def _f32(data: Array) -> Array:
    return data.view("<f4").copy()


def _f16(data: Array) -> Array:
    return data.view("<f2").astype("<f4")


def _bf16(data: Array) -> Array:
    return (data.view("<u2").astype("<u4") << 16).view("<f4")


def _q4_0(data: Array) -> Array:
    blocks = data.reshape(-1, 18)
    values: Array = _scale(blocks) * (_nibbles(blocks[:, 2:]) - 8)
    return values


def _q4_1(data: Array) -> Array:
    blocks = data.reshape(-1, 20)
    minimum = blocks[:, 2:4].copy().view("<f2").astype("<f4")
    values: Array = _scale(blocks) * _nibbles(blocks[:, 4:]) + minimum
    return values


def _q8_0(data: Array) -> Array:
    blocks = data.reshape(-1, 34)
    values: Array = _scale(blocks) * blocks[:, 2:].view("i1")
    return values


def _scale(blocks: Array) -> Array:
    return blocks[:, :2].copy().view("<f2").astype("<f4")


def _nibbles(data: Array) -> Array:
    return np.concatenate([data & 15, data >> 4], axis=1).astype("<f4")


_TYPES: dict[int, tuple[int, int, Callable[[Array], Array]]] = {
    0: (1, 4, _f32),
    1: (1, 2, _f16),
    2: (32, 18, _q4_0),
    3: (32, 20, _q4_1),
    8: (32, 34, _q8_0),
    30: (1, 2, _bf16),
}
"""For each type, by ggml's number: the numbers in a block, its bytes, and its decoder.

The layout of the blocks: https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h
"""


def _values(path: Path, name: str, tensor: GgufTensor, data: Array) -> Array:
    """A tensor's numbers as float32."""
    if tensor.type not in _TYPES:
        raise ModelUnavailable(
            f"{path.name} has the tensor {name!r} with quantization number {tensor.type}; only "
            "F32, F16, BF16, Q4_0, Q4_1 and Q8_0 can be read.",
            hint="Convert it to one of these with llama-quantize.",
        )
    numbers, size, read = _TYPES[tensor.type]
    end = tensor.offset + int(np.prod(tensor.shape)) // numbers * size
    if end > len(data):
        raise ModelUnavailable(
            f"{path} is truncated: the tensor {name!r} ends at byte {end} of {len(data)}.",
            hint="Fetch the file again.",
        )
    return read(np.asarray(data[tensor.offset : end])).reshape(tensor.shape)


def _tokenizer(path: Path, about: dict[str, Any]) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    kind = about.get("tokenizer.ggml.model"), about.get("tokenizer.ggml.pre")
    if kind != ("gpt2", "smollm"):
        raise ModelUnavailable(
            f"{path.name} has a vocabulary of the kind {kind[0]}/{kind[1]}; among GGUF files, "
            "only gpt2/smollm can be served with trainable weights.",
            hint="Name a folder with the model in Hugging Face's format instead.",
        )
    tokens: list[str] = about["tokenizer.ggml.tokens"]
    types: list[int] = about["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in about["tokenizer.ggml.merges"]]
    bpe = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, types, strict=True)
            if kind == CONTROL
        ]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=tokens[about["tokenizer.ggml.eos_token_id"]]
    )
    tokenizer.chat_template = about.get("tokenizer.chat_template")
    return tokenizer
