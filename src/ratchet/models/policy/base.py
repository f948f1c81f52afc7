"""A base model: its weights as a transformers model, its tokenizer, and hashes that identify it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from ratchet.models.failure import ModelUnavailable
from ratchet.models.gguf import read_contents
from ratchet.models.memory import OVERHEAD, as_megabytes, bytes_available
from ratchet.models.model_file import LOCAL, boxed_name, find_model
from ratchet.models.policy.safetensors_file import count_numbers, hash_tensors
from ratchet.models.policy.tokens import ChatTokenizer
from ratchet.types import LOCAL_MODELS

DTYPES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of a number, by PyTorch's name for its type."""


@dataclass(frozen=True)
class Base:
    """A base model that adapters are trained on and served with."""

    model: Any
    """The causal language model, of a class of transformers, in evaluation mode."""
    tokenizer: ChatTokenizer
    name: str
    """The name with which it answers, such as `local/smollm2`."""
    fingerprint: str
    """SHA-256 of the weights and of the configuration used with them."""
    tokenizer_hash: str
    template_hash: str
    context: int
    """Tokens of context that it was trained for."""
    stop_ids: frozenset[int]
    """Tokens that end an answer."""


def load_base(source: str | Path, *, device: str = "cpu", dtype: str = "float32") -> Base:
    """Load a base model.

    Args:
        source: A folder in the format of Hugging Face with safetensors, or a GGUF of a Llama as
            `find_model` takes it, such as `smollm2`.
        device: PyTorch's name of a device.
        dtype: `float32`, `bfloat16` or `float16`.

    Raises:
        ModelUnavailable: The extra `train` is missing, there is no such model, or it is of a kind
            that is not supported.
    """
    require_train()
    import torch

    from ratchet.models.policy.gguf_weights import load_gguf

    if dtype not in DTYPES:
        raise ModelUnavailable(f"dtype is {dtype!r}; it must be one of {', '.join(DTYPES)}.")
    path = find_base(source)
    if device == "cpu":
        check_weights(path, dtype)
    kind = getattr(torch, dtype)
    with _without_progress():
        model, inner = _load_folder(path, kind) if path.is_dir() else load_gguf(path, kind)
    try:
        model = model.to(device).eval()
    except (RuntimeError, AssertionError) as error:
        raise ModelUnavailable(
            f"{path.name} cannot be put on the device {device!r}: {error}",
            hint="Check that the device exists and has enough memory; cpu always works.",
        ) from None
    model.requires_grad_(False)
    tokenizer = ChatTokenizer(inner)
    return Base(
        model=model,
        tokenizer=tokenizer,
        name=base_name(source),
        fingerprint=fingerprint(path),
        tokenizer_hash=tokenizer.hash,
        template_hash=tokenizer.template_hash,
        context=int(getattr(model.config, "max_position_embeddings", 0) or 2048),
        stop_ids=_stop_ids(model, tokenizer),
    )


def require_train() -> None:
    """Check that the packages of the extra `train` are installed.

    Raises:
        ModelUnavailable: One is missing.
    """
    for package in ("torch", "transformers", "peft", "safetensors"):
        if find_spec(package) is None:
            raise ModelUnavailable(
                f"Trainable weights need the package {package}, which is not installed.",
                hint="Install it: pip install 'agent-ratchet[train]'.",
            )


def find_base(source: str | Path) -> Path:
    """The folder or GGUF file of a base model.

    Raises:
        ModelUnavailable: There is none.
    """
    text = str(source).removeprefix(f"{LOCAL}:")
    path = Path(text).expanduser().absolute()
    if boxed_name(text) or not path.is_dir():
        return find_model(text, lambda _: None).path
    if (path / "config.json").is_file():
        return path
    raise ModelUnavailable(
        f"There is no model in {path}: the folder has no config.json.",
        hint="Name a folder in Hugging Face's format, as save_pretrained writes it.",
    )


def check_weights(path: Path, dtype: str, available: int | None = None) -> None:
    """Refuse a model whose weights do not fit into the available memory.

    Args:
        path: As `find_base` returns it.
        dtype: Type of the weights in memory.
        available: Bytes available; measured when left out.

    Raises:
        ModelUnavailable: They do not fit, or cannot be read.
    """
    if path.is_file():
        tensors = read_contents(path).tensors.values()
        numbers = sum(math.prod(tensor.shape) for tensor in tensors)
    else:
        numbers = count_numbers(path.glob("*.safetensors"))
    free = bytes_available() if available is None else available
    needed = numbers * DTYPES[dtype] + OVERHEAD
    if needed > free:
        raise ModelUnavailable(
            f"{path.name} is too large for this machine: its weights need about "
            f"{as_megabytes(needed)} of memory as {dtype}, but only {as_megabytes(free)} are "
            "available.",
            hint="Choose a smaller model.",
        )


def base_name(source: str | Path) -> str:
    """The name with which a base model answers, such as `local/smollm2`."""
    text = str(source).removeprefix(f"{LOCAL}:")
    if boxed := boxed_name(text):
        return f"{LOCAL_MODELS}{boxed}"
    path = Path(text).expanduser().absolute()
    return f"{LOCAL_MODELS}{path.stem if path.suffix == '.gguf' else path.name}"


def fingerprint(path: Path) -> str:
    """SHA-256 that identifies a base model: its weights, and the configuration of a folder.

    Args:
        path: As `find_base` returns it.

    Raises:
        ModelUnavailable: The weights cannot be read.
    """
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise ModelUnavailable(
            f"The folder {path} has no weights in the safetensors format.",
            hint="Save them in that format: model.save_pretrained(folder). Pickled weights are "
            "not read.",
        )
    config = _config(path)
    for key in ("_name_or_path", "transformers_version", "dtype", "torch_dtype"):
        config.pop(key, None)
    about = [config, hash_tensors(files)]
    return hashlib.sha256(msgspec.json.encode(about, order="deterministic")).hexdigest()


def _config(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode((path / "config.json").read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise ModelUnavailable(f"{path / 'config.json'} cannot be read: {error}.") from None


def _load_folder(path: Path, dtype: Any) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        model = AutoModelForCausalLM.from_pretrained(
            path, dtype=dtype, local_files_only=True, use_safetensors=True
        )
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        raise ModelUnavailable(
            f"The model in {path} cannot be loaded: {str(error).strip()[:500]}",
            hint="It needs config.json, safetensors and the tokenizer's files of a causal language"
            " model that transformers knows. Python files in the folder are not run.",
        ) from None
    return model, tokenizer


@contextmanager
def _without_progress() -> Iterator[None]:
    """Keep transformers from drawing progress bars on standard error."""
    from transformers.utils import logging

    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()


def _stop_ids(model: Any, tokenizer: ChatTokenizer) -> frozenset[int]:
    """Ids of the tokens that end an answer, from the tokenizer and the generation settings."""
    stop_ids = {tokenizer.eos_id}
    eos = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    stop_ids.update(eos if isinstance(eos, list | tuple) else [eos])
    return frozenset(int(token) for token in stop_ids if token is not None)
