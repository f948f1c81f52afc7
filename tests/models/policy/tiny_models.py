"""Small random models with a tokenizer and a chat template, and adapters of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")


def tokenizer(template: str | None = TEMPLATE) -> Any:
    """A tokenizer of bytes: 256 of them, and the special tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL])
    wrapped = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>")
    wrapped.chat_template = template
    return wrapped


def save_model(
    folder: Path,
    *,
    kind: str = "llama",
    seed: int = 0,
    template: str | None = TEMPLATE,
    **given: Any,
) -> Path:
    """Save a random model of two layers, of a kind that transformers knows."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    settings: dict[str, Any] = {
        "vocab_size": 272,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": 257,
        "pad_token_id": None,
        "initializer_range": 0.2,
        **given,
    }
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **settings))
    model.save_pretrained(folder)
    tokenizer(template).save_pretrained(folder)
    return folder


def save_adapter(folder: Path, base: Any, *, seed: int = 1, r: int = 4, **given: Any) -> Path:
    """Save a random LoRA adapter of a base, with effects large enough to be seen."""
    import copy

    import torch
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=r, lora_alpha=8, target_modules="all-linear", lora_dropout=0.0, **given)
    torch.manual_seed(seed)
    model = get_peft_model(copy.deepcopy(base.model), config)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.05)
    model.peft_config["default"].base_model_name_or_path = base.fingerprint
    model.save_pretrained(folder, save_embedding_layers=False)
    return folder
