"""GGUF files that Ollama and Hugging Face's libraries keep on this machine, by their names
there.

Ollama: a manifest `manifests/HOST/OWNER/MODEL/TAG` names the layer with the model, whose bytes are
the file `blobs/sha256-…`. Hugging Face: `models--OWNER--NAME/snapshots/REVISION/FILE.gguf`, where
`refs/main` holds the revision that counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

OLLAMA_HOST, OLLAMA_OWNER = "registry.ollama.ai", "library"
"""Parts that Ollama leaves out of names."""

OLLAMA_LAYER = "application/vnd.ollama.image.model"
"""Media type of the layer that is a GGUF file."""

_SHARD = re.compile(r"-(\d{5})-of-\d{5}$")
"""Endings of the files of a split model; llama.cpp finds the others from the first."""


class CachedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A GGUF file in the cache of another program."""

    name: str
    """The name in that program: `qwen2.5:0.5b`, `Qwen/Qwen2.5-0.5B-Instruct-GGUF`."""
    label: str
    """Identifies the file if a name has several: the file's stem, or Ollama's name."""
    path: Path

    @property
    def full_name(self) -> str:
        """A name for this file only; other revisions of it share the name."""
        return self.name if self.name == self.label else f"{self.name}/{self.label}"

    def answers_to(self, name: str) -> bool:
        """Whether a user who writes this name may mean this file.

        The names are the full one, without its owner, and that of the file; after a colon follows
        Ollama's tag, or the end of the file's stem, such as the quantization.
        """
        query = name.casefold().removesuffix(".gguf")
        full, label = self.name.casefold(), self.label.casefold()
        names = {full, full.rpartition("/")[2], label, self.full_name.casefold()}
        if full == label:  # Ollama's, which has a tag
            names |= {tagged.rpartition(":")[0] for tagged in tuple(names)}
            return query in names
        repository, _, end = query.rpartition(":")
        return query in names or (repository in names and label.endswith((f"-{end}", f".{end}")))


def cached_models() -> list[CachedModel]:
    """The models in the caches of Ollama and Hugging Face, sorted by name."""
    every = [
        *(model for folder in _ollama_folders() for model in _of_ollama(folder)),
        *_of_hugging_face(_hugging_face_folder()),
    ]
    return sorted(every, key=lambda model: (model.name.casefold(), model.label.casefold()))


def named(name: str, models: list[CachedModel]) -> list[CachedModel]:
    """The models that a name may mean; several if it is ambiguous.

    As in Ollama, a name without a tag means the tag `latest` where there is one.
    """
    meant = [model for model in models if model.answers_to(name)]
    latest = [model for model in meant if model.name.casefold() == f"{name}:latest".casefold()]
    # Several revisions, or several of Ollama's tags, may be one and the same file.
    return list({model.path.resolve(): model for model in latest or meant}.values())


def files_of(path: Path) -> list[Path]:
    """The files of a model: its own, or all parts of a split model, which are side by side."""
    if not _SHARD.search(path.stem):
        return [path]
    stem = _SHARD.sub("", path.stem)
    return [
        beside
        for beside in path.parent.glob("*.gguf")
        if _SHARD.search(beside.stem) and _SHARD.sub("", beside.stem) == stem
    ]


def _ollama_folders() -> list[Path]:
    if named_folder := os.environ.get("OLLAMA_MODELS"):
        return [Path(named_folder)]
    # Its service on Linux has a user of its own.
    return [Path.home() / ".ollama/models", Path("/usr/share/ollama/.ollama/models")]


class _Layer(msgspec.Struct):
    digest: str = ""
    type: str = msgspec.field(name="mediaType", default="")


class _Manifest(msgspec.Struct):
    layers: list[_Layer] = []


def _of_ollama(folder: Path) -> Iterator[CachedModel]:
    manifests = folder / "manifests"
    for path in _files(manifests, "*/*/*/*"):
        try:
            layers = msgspec.json.decode(path.read_bytes(), type=_Manifest).layers
        except (OSError, msgspec.DecodeError):
            continue  # another program's file, which may be half written
        for layer in layers:
            blob = folder / "blobs" / layer.digest.replace(":", "-")
            if layer.type == OLLAMA_LAYER and os.access(blob, os.R_OK):
                host, owner, model, tag = path.relative_to(manifests).parts
                name = f"{model}:{tag}"
                if (host, owner) != (OLLAMA_HOST, OLLAMA_OWNER):
                    name = f"{owner}/{name}"
                if host != OLLAMA_HOST:
                    name = f"{host}/{name}"
                yield CachedModel(name=name, label=name, path=blob)


def _hugging_face_folder() -> Path:
    if folder := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(folder).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{cache}/huggingface"
    return Path(home).expanduser() / "hub"


def _of_hugging_face(folder: Path) -> Iterator[CachedModel]:
    for repository in _files(folder, "models--*"):
        name = repository.name.removeprefix("models--").replace("--", "/", 1)
        main = ""
        with suppress(OSError):
            main = (repository / "refs/main").read_text().strip()
        in_main = _files(repository / "snapshots", f"{main}/**/*.gguf") if main else []
        for path in in_main or _files(repository / "snapshots", "*/**/*.gguf"):
            shard = _SHARD.search(path.stem)
            # An interrupted download leaves a link to nothing.
            if os.access(path, os.R_OK) and (shard is None or int(shard[1]) == 1):
                label = _SHARD.sub("", path.stem)
                yield CachedModel(name=name, label=label, path=path)


def _files(folder: Path, pattern: str) -> list[Path]:
    """The entries of a folder, sorted; none if it may not be read."""
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []
