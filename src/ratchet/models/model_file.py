"""A local model's file: found by name or path, and checked before it is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from ratchet.models.box import BOX, SMOLLM2
from ratchet.models.caches import CachedModel, cached_models, files_of, named
from ratchet.models.failure import ModelUnavailable
from ratchet.models.fetching import OnBytes, fetch
from ratchet.models.gguf import GgufHeader, read_header
from ratchet.models.memory import as_megabytes, bytes_available, bytes_needed
from ratchet.types import LOCAL_MODELS
from ratchet.types.wording import counted

LOCAL = "local"
"""The prefix of a local model's name, and by itself the smallest model that Ratchet can fetch."""

MAX_MODELS_SHOWN = 12


class ModelFile(msgspec.Struct, frozen=True, kw_only=True):
    """A GGUF file that can be served."""

    name: str
    """The name with which the model answers, such as `local/smollm2`."""
    path: Path
    bytes: int
    """Size in bytes; that of all files if the model is split."""
    header: GgufHeader

    @property
    def version(self) -> str:
        """Identifies the model in rollouts: its name and size, since hashing takes seconds."""
        return f"{self.name}@{self.bytes}"


def is_local(name: str | None) -> bool:
    """Whether a model's name in `ratchet.toml` means a local model: `local` or `local:NAME`."""
    return name is not None and (name == LOCAL or name.startswith(f"{LOCAL}:"))


def boxed_name(name: str) -> str | None:
    """The name of the fetchable model that a user means: `local` is the smallest; None for none.

    Args:
        name: It may follow `local:`.
    """
    name = name.removeprefix(f"{LOCAL}:")
    if name == LOCAL:
        return SMOLLM2
    return name if name in BOX else None


def find_model(
    name: str,
    say: Callable[[str], None],
    *,
    folder: Path = Path("."),
    on_bytes: OnBytes | None = None,
) -> ModelFile:
    """Find a model's file, and read its header.

    Args:
        name: A model that Ratchet can fetch, if it is missing; a path; or a model in the
            cache of Ollama or of Hugging Face. It may follow `local:`; `local` is the smallest
            model in the box.
        say: Called with a sentence before something is fetched.
        folder: Folder that a path is relative to.
        on_bytes: As of `fetch`.

    Raises:
        ModelUnavailable: There is no such model, or several; it is not a whole GGUF, or it cannot
            be fetched.
    """
    name = name.removeprefix(f"{LOCAL}:")
    if boxed := boxed_name(name):
        return _read(boxed, fetch(BOX[boxed], say, on_bytes))
    path = (folder / Path(name).expanduser()).absolute()
    if path.is_file():
        return _read(path.stem, path)
    cached = _in_caches(name)
    return _read(cached.label, cached.path)


def _read(label: str, path: Path) -> ModelFile:
    return ModelFile(
        name=f"{LOCAL_MODELS}{label}",
        path=path,
        bytes=sum(part.stat().st_size for part in files_of(path)),
        header=read_header(path),
    )


def _in_caches(name: str) -> CachedModel:
    """The model with this name in the cache of another program.

    Raises:
        ModelUnavailable: There is none, or several.
    """
    models = cached_models()
    meant = named(name, models)
    if len(meant) > 1:
        meant = [model for model in meant if _writes_text(model.path)] or meant
    if len(meant) == 1:
        return meant[0]
    if meant:
        paths = "\n".join(
            f"  {model.full_name}  {model.path}" for model in meant[:MAX_MODELS_SHOWN]
        )
        raise ModelUnavailable(
            f"{name!r} names {counted(len(meant), 'model')} on this machine:\n{paths}",
            hint="Use the name at the beginning of a line, or the path.",
        )
    names = ", ".join(model.full_name for model in models[:MAX_MODELS_SHOWN])
    more = (
        f" and {len(models) - MAX_MODELS_SHOWN} more (ratchet model)"
        if len(models) > MAX_MODELS_SHOWN
        else ""
    )
    raise ModelUnavailable(
        f"There is no model {name!r}: it is not a file, not one to fetch, and not in the "
        "cache of Ollama or Hugging Face.",
        hint=f"Fetched when named: {', '.join(BOX)}. In those caches: {names or 'none'}{more}. Or "
        "name a file: ratchet model ./model.gguf.",
    )


def _writes_text(path: Path) -> bool:
    """Whether a file seems to be a language model: image projectors are stored beside models."""
    try:
        return read_header(path).context > 0
    except ModelUnavailable:
        return True


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
            f"{file.path.name} is too large for this machine: it needs about "
            f"{as_megabytes(needed)} of memory with {counted(tokens, 'token')} in all slots, but "
            f"only {as_megabytes(free)} are available.",
            hint="Choose a smaller model, or lower --context or --slots of ratchet model.",
        )
