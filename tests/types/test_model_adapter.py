from __future__ import annotations

import msgspec
import pytest

from ratchet.types import Adapter, InputError, Model, Resource, content_hash, version_of

PLAIN = Model("small", "http://x/v1", {"temperature": 0.5})


def test_the_version_of_a_model_without_an_adapter_is_as_before() -> None:
    assert version_of(PLAIN) == content_hash(
        {
            "kind": "model",
            "model": "small",
            "base_url": "http://x/v1",
            "sampling": {"temperature": 0.5},
            "weights": None,
        }
    )
    stored = b'{"type":"model","model":"small","base_url":"http://x/v1","sampling":{}}'
    assert msgspec.json.decode(stored, type=Resource).adapter is None  # type: ignore[union-attr]


def test_the_weights_determine_the_version_and_the_recipe_does_not() -> None:
    def version(hash: str, **more: object) -> str:
        adapter = Adapter(hash, "base", "tokenizer", dict(more))
        return version_of(msgspec.structs.replace(PLAIN, adapter=adapter))

    assert version("a") != version("b")
    assert version("a") != version_of(PLAIN)
    assert version("a", algorithm="sft") == version("a", algorithm="grpo")


def test_an_adapter_names_itself_and_its_base() -> None:
    with pytest.raises(InputError, match="base"):
        Adapter("a", "")
