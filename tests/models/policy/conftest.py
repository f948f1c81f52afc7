"""A tiny model, adapters of it, and its server, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.local_models import local_model
from tests.models.policy.tiny_models import save_adapter, save_model

from ratchet.models.policy import Base, PolicyServer, load_base

__all__ = ["local_model"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny Llama."""
    return save_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def base(folder: Path) -> Base:
    """The tiny model, which no engine may have: it is what training would use."""
    return load_base(folder)


@pytest.fixture(scope="session")
def adapters(base: Base, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Folders of three adapters."""
    made = tmp_path_factory.mktemp("adapters")
    return [save_adapter(made / str(seed), base, seed=seed) for seed in (1, 2, 3)]


@pytest.fixture(scope="session")
def server(folder: Path, adapters: list[Path]) -> Iterator[PolicyServer]:
    """The tiny model with its first two adapters, served."""
    names = {"first": adapters[0], "second": adapters[1]}
    with PolicyServer(folder, adapters=names, slots=4, queue=20, threads=1) as running:
        yield running
