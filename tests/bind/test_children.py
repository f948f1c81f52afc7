"""Processes that an agent starts inherit its candidate and its seed through the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ratchet.bind import BINDING_VARIABLE, SEED_VARIABLE, Binding
from ratchet.types import Int, Params

CHILD = """
import ratchet
from ratchet.bind import current, current_seed
knobs = ratchet.params("knobs", k=ratchet.Int(5, 1, 20))
print(knobs.k, current_seed(), current() is not None)
"""


def child(**environment: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", CHILD],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert not ran.stderr
    return ran.stdout.strip()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "binding.json"
    binding = Binding(resources={"knobs": Params({"k": Int(5, 1, 20)}, {"k": 9})}, seed=1)
    path.write_bytes(msgspec.json.encode(binding))
    return path


def test_a_child_process_runs_with_the_inherited_candidate_and_seed(file: Path) -> None:
    assert child(**{BINDING_VARIABLE: str(file)}) == "9 1 True"
    assert child(**{BINDING_VARIABLE: str(file), SEED_VARIABLE: "77"}) == "9 77 True"


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"{not json",
        b"\xff\xfe",
        b'{"resources": {"k": {"type": "params"}}}',
        b'{"resources": {"p": {"type": "prompt", "text": "{"}}}',
    ],
)
def test_a_file_that_is_gone_or_spoiled_means_the_source(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "binding.json"
    if content is not None:
        path.write_bytes(content)
    assert child(**{BINDING_VARIABLE: str(path), SEED_VARIABLE: "x"}) == "5 0 False"
