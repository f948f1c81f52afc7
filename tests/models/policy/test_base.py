"""Base models and adapters: loaded, identified, refused."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.local_models import GROUP, require_model
from tests.models.policy.tiny_models import save_adapter, save_model

from ratchet._http import httpx2
from ratchet.models import LocalModel, ModelUnavailable
from ratchet.models.policy import Base, adapter_hash, load_base
from ratchet.models.policy.base import check_weights

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group(GROUP)]


@pytest.fixture(scope="module")
def smollm2() -> Base:
    require_model()
    return load_base("smollm2")


def test_a_folder_is_loaded_with_what_ends_an_answer(base: Base) -> None:
    assert base.name == "local/tiny"
    assert base.context == 512
    assert base.stop_ids == {257}
    assert base.tokenizer.decode(base.tokenizer.encode("naïve 12")) == "naïve 12"
    text = base.tokenizer.render_text([{"role": "user", "content": "hi"}])
    assert text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


def test_a_fingerprint_is_of_the_weights_and_not_of_the_files(folder: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder)
    model.save_pretrained(tmp_path / "shards", max_shard_size="50KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    load_base(folder).tokenizer.inner.save_pretrained(tmp_path / "shards")
    assert load_base(tmp_path / "shards").fingerprint == load_base(folder).fingerprint
    other = save_model(tmp_path / "other", seed=1)
    assert load_base(other).fingerprint != load_base(folder).fingerprint


def test_the_hash_of_an_adapter_is_of_what_it_computes(base: Base, tmp_path: Path) -> None:
    first = save_adapter(tmp_path / "first", base)
    again = save_adapter(tmp_path / "again", base)
    config = json.loads((again / "adapter_config.json").read_text())
    config["target_modules"].reverse()
    (again / "adapter_config.json").write_text(json.dumps(config))
    assert adapter_hash(first) == adapter_hash(again)
    assert adapter_hash(save_adapter(tmp_path / "other", base, seed=2)) != adapter_hash(first)
    (again / "adapter_config.json").write_text(json.dumps({**config, "lora_alpha": 9}))
    assert adapter_hash(first) != adapter_hash(again)


def test_an_adapter_that_is_absent_broken_or_of_another_kind_is_named(
    base: Base, tmp_path: Path
) -> None:
    with pytest.raises(ModelUnavailable, match=r"no adapter in .*absent.*adapter_config\.json"):
        adapter_hash(tmp_path / "absent")
    made = save_adapter(tmp_path / "made", base)
    weights = made / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(ModelUnavailable, match="not a complete file in the safetensors format"):
        adapter_hash(made)
    config = json.loads((made / "adapter_config.json").read_text())
    (made / "adapter_config.json").write_text(json.dumps({**config, "use_dora": True}))
    with pytest.raises(ModelUnavailable, match="has DoRA, which is not supported"):
        adapter_hash(made)


def test_what_is_no_model_is_refused_with_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="no model 'nowhere': it is not a file"):
        load_base("nowhere")
    with pytest.raises(ModelUnavailable, match=r"the folder has no config\.json"):
        load_base(tmp_path)
    pickled = save_model(tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(ModelUnavailable, match=r"pickled cannot be loaded"):
        load_base(pickled)
    with pytest.raises(ModelUnavailable, match="dtype is 'int4'"):
        load_base(tmp_path, dtype="int4")


def test_a_model_whose_weights_do_not_fit_is_refused_with_both_numbers(folder: Path) -> None:
    check_weights(folder, "float32")
    with pytest.raises(ModelUnavailable, match=r"tiny is too large .* about 269 MB .* 1 MB are"):
        check_weights(folder, "float32", available=1_000_000)


def texts(count: int) -> list[str]:
    """Texts of many scripts, digits and spaces."""
    chosen = random.Random(5)
    words = ["the", "Straße", "日本語", "1234567", "3.14", "don't", "  two", "\n\n", "🙂", "x_y=7;"]
    words += ["Привет", "<|im_start|>", "user\n", "\t", "ﬁne", "e\u0301", "https://a.b/c?d=1"]
    return [
        chosen.choice(["", " "]).join(chosen.choices(words, k=chosen.randrange(1, 12)))
        for _ in range(count)
    ]


def test_the_tokenizer_of_a_gguf_agrees_with_llama_cpp(
    smollm2: Base, local_model: LocalModel
) -> None:
    root = local_model.base_url.removesuffix("/v1")
    key = {"authorization": f"Bearer {local_model.key}"}
    differ: list[Any] = []
    with httpx2.Client(headers=key) as http:
        for text in texts(300):
            body = {"content": text, "add_special": False, "parse_special": True}
            theirs = http.post(f"{root}/tokenize", json=body).json()["tokens"]
            if theirs != smollm2.tokenizer.encode(text):
                differ.append((text, theirs, smollm2.tokenizer.encode(text)))
    assert differ == []
