"""A LoRA adapter's folder in PEFT's layout: what it says, and its content hash."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from ratchet.models.failure import ModelUnavailable
from ratchet.models.policy.safetensors_file import hash_tensors

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


class AdapterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The part of PEFT's `adapter_config.json` that decides what an adapter computes."""

    peft_type: str
    base_model_name_or_path: str | None = None
    """Fingerprint of its base model."""
    r: int = 8
    lora_alpha: float = 8
    target_modules: list[str] | str | None = None
    rank_pattern: dict[str, int] = {}
    alpha_pattern: dict[str, float] = {}
    use_rslora: bool = False
    use_dora: bool = False
    bias: str = "none"
    fan_in_fan_out: bool = False
    modules_to_save: list[str] | None = None


def read_adapter_config(folder: Path | str) -> AdapterConfig:
    """Read what an adapter's folder says about it.

    Raises:
        ModelUnavailable: There is no such folder or file, or it is not PEFT's layout of a LoRA.
    """
    path = Path(folder) / CONFIG
    try:
        config = msgspec.json.decode(path.read_bytes(), type=AdapterConfig, strict=False)
    except OSError as error:
        raise ModelUnavailable(
            f"There is no adapter in {folder}: {CONFIG} cannot be read ({error.strerror}).",
            hint=f"Name a folder with the files {CONFIG} and {WEIGHTS}, as PEFT saves them.",
        ) from None
    except msgspec.DecodeError as error:
        raise ModelUnavailable(f"{path} is not a PEFT configuration: {error}.") from None
    unsupported = [
        *([f"the type {config.peft_type}"] if config.peft_type != "LORA" else []),
        *(["DoRA"] if config.use_dora else []),
        *([f"bias {config.bias!r}"] if config.bias != "none" else []),
        *(["fan_in_fan_out"] if config.fan_in_fan_out else []),
        *(["modules_to_save"] if config.modules_to_save else []),
    ]
    if unsupported:
        raise ModelUnavailable(
            f"The adapter in {folder} has {' and '.join(unsupported)}, which is not supported.",
            hint="Only LoRA on linear layers is supported, no biases and no whole modules.",
        )
    return config


def adapter_hash(folder: Path | str) -> str:
    """SHA-256 of what an adapter computes: its tensors, and the settings used with them.

    Equal adapters have equal hashes, in whatever order PEFT wrote their names.

    Args:
        folder: A folder with `adapter_config.json` and `adapter_model.safetensors`.

    Raises:
        ModelUnavailable: As `read_adapter_config`, or the file of tensors is absent or broken.
    """
    config = msgspec.to_builtins(read_adapter_config(folder))
    if isinstance(config["target_modules"], list):
        config["target_modules"].sort()
    about: list[Any] = [config, hash_tensors([Path(folder) / WEIGHTS])]
    return hashlib.sha256(msgspec.json.encode(about, order="deterministic")).hexdigest()
