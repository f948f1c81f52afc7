from __future__ import annotations

import json
from pathlib import Path

import pytest

from ratchet.autopilot.adapters import AdapterFolder
from ratchet.types import Adapter, InputError

pytestmark = pytest.mark.torch


def adapter(folder: Path, value: float = 1.0) -> Path:
    import torch
    from safetensors.torch import save_file

    folder.mkdir()
    save_file({"a": torch.full((2, 2), value)}, folder / "adapter_model.safetensors")
    about = {"peft_type": "LORA", "base_model_name_or_path": "base"}
    (folder / "adapter_config.json").write_text(json.dumps(about))
    return folder


def test_an_adapter_is_kept_by_its_content(tmp_path: Path) -> None:
    kept = AdapterFolder(tmp_path / "state" / "adapters")
    assert list(kept.known()) == []
    one = kept.keep(adapter(tmp_path / "one"))
    assert kept.keep(adapter(tmp_path / "same")) == one
    other = kept.keep(adapter(tmp_path / "other", 2.0))
    assert sorted(kept.known()) == sorted([(one, kept.path(one)), (other, kept.path(other))])
    assert kept.verified(Adapter(one, "base")) == kept.path(one)


def test_an_adapter_that_is_missing_or_was_changed_is_refused(tmp_path: Path) -> None:
    kept = AdapterFolder(tmp_path / "adapters")
    with pytest.raises(InputError, match="is not in"):
        kept.verified(Adapter("abc", "base"))
    hash = kept.keep(adapter(tmp_path / "one"))
    changed = adapter(tmp_path / "two", 3.0) / "adapter_model.safetensors"
    (kept.path(hash) / "adapter_model.safetensors").write_bytes(changed.read_bytes())
    with pytest.raises(InputError, match="does not match the hash in its name"):
        kept.verified(Adapter(hash, "base"))
