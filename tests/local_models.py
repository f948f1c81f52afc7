"""The real small language model, served once for all tests of a worker that share a group."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from openai import OpenAI

from ratchet.models import LocalModel, shared_model
from ratchet.models.box import BOX, SMOLLM2

GROUP = "local-model"
"""The xdist group of the tests that use it."""


def require_model() -> None:
    """Skip the test where the model or its engine is missing."""
    if find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed: pip install -e '.[local]'")
    if not BOX[SMOLLM2].is_fetched:
        pytest.skip("SmolLM2 is not on this machine: ratchet model smollm2 --fetch")


@pytest.fixture(scope="session")
def local_model() -> Iterator[LocalModel]:
    """The running model; what names a local model in this process uses it, too."""
    require_model()
    with shared_model("local", print, Path()) as model:
        yield model


@pytest.fixture
def client(local_model: LocalModel) -> Iterator[OpenAI]:
    """A client of it."""
    with OpenAI(
        base_url=local_model.base_url, api_key=local_model.key, max_retries=0, timeout=60
    ) as made:
        yield made
