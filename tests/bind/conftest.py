"""Fixtures of the room: no declaration and no release outlives its test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ratchet import bind
from ratchet.observe import carry_context
from ratchet.types import Candidate


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    bind.forget()
    yield
    bind.forget()
    bind.activate(None)
    bind.bind_process(None)


@pytest.fixture
def release() -> Callable[..., None]:
    """Make resources, by name, the active release."""

    def activate(**resources: Any) -> None:
        bind.activate(Candidate.of(resources))

    return activate


@pytest.fixture
def carried() -> None:
    carry_context()


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], ModuleType]:
    """Make a module from source text in a file, as an agent's would be; loading again reloads."""

    def make(source: str, file: str = "agent_under_test.py") -> ModuleType:
        path = tmp_path / file
        path.write_text(source)
        module = ModuleType(path.stem)
        module.__file__ = str(path)
        sys.modules.pop(path.stem, None)
        exec(compile(source, str(path), "exec"), module.__dict__)
        return module

    return make
