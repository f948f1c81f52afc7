"""A local model's file: found by name or path, and checked before it is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from ratchet.models.failure import ModelUnavailable
from ratchet.models.gguf import GgufHeader, read_header
from ratchet.models.memory import as_megabytes, bytes_available, bytes_needed
from ratchet.models.smollm2 import fetch_smollm2
from ratchet.types import LOCAL_MODELS

LOCAL, SMOLLM2 = "local", "smollm2"


class ModelFile(msgspec.Struct, frozen=True, kw_only=True):
    """A GGUF file that can be served."""

    name: str
    """The name that the model answers with, such as `local/smollm2`."""
    path: Path
    bytes: int
    header: GgufHeader

    @property
    def version(self) -> str:
        """Identifies the model in rollouts: its name and size, since hashing takes seconds."""
        return f"{self.name}@{self.bytes}"


def is_local(name: str | None) -> bool:
    """Whether a model's name in `ratchet.toml` means a local model: `local` or `local:PATH`."""
    return name is not None and (name == LOCAL or name.startswith(f"{LOCAL}:"))


def find_model(
    name: str, say: Callable[[str], None], *, folder: Path = Path("."), progress: bool = False
) -> ModelFile:
    """Find a model's file, and read its header.

    Args:
        name: `local` or `smollm2`, which is fetched when it is missing; or a path, which may
            follow `local:`.
        say: Called with a sentence before something is fetched.
        folder: Folder that a path is relative to.
        progress: Show the progress of fetching on standard error.

    Raises:
        ModelUnavailable: There is no such file, it is not a whole GGUF, or it cannot be fetched.
    """
    name = name.removeprefix(f"{LOCAL}:")
    if name in (LOCAL, SMOLLM2):
        path, label = fetch_smollm2(say, progress=progress), SMOLLM2
    else:
        path = (folder / Path(name).expanduser()).absolute()
        label = path.stem
        if not path.is_file():
            raise ModelUnavailable(
                f"There is no model {name!r}: it is neither `smollm2` nor a file.",
                hint="Name a file in the GGUF format, such as ratchet model ./model.gguf.",
            )
    return ModelFile(
        name=f"{LOCAL_MODELS}{label}",
        path=path,
        bytes=path.stat().st_size,
        header=read_header(path),
    )


def check_memory(file: ModelFile, tokens: int, available: int | None = None) -> None:
    """Refuse a model that does not fit into the memory that is available.

    Args:
        file: The model.
        tokens: Tokens of all slots together.
        available: Bytes available; measured when left out.

    Raises:
        ModelUnavailable: It does not fit.
    """
    free = bytes_available() if available is None else available
    needed = bytes_needed(file.bytes, file.header.cache_bytes_per_token, tokens)
    if needed > free:
        raise ModelUnavailable(
            f"{file.path.name} is too large for this machine: it needs about"
            f" {as_megabytes(needed)} of memory with {tokens} tokens in all slots, and"
            f" {as_megabytes(free)} are available.",
            hint="Choose a smaller model, or lower --context or --slots of ratchet model.",
        )
