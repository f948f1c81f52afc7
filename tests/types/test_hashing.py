"""The same content has the same name, on every machine and in every run."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import strategies as st

from ratchet.types import InputError, content_hash

NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abé"), inner, max_size=4),
    max_leaves=12,
)


def test_known_digests_never_change() -> None:
    assert content_hash(None) == "74234e98afe7498fb5daf1f36ac2d78a"
    assert content_hash({"b": [1, 2.5, "ü"], "a": {"x": True}}) == (
        "1776f7d4d2f12fb0993c6d2edaedb579"
    )


def test_every_process_finds_the_same_digest() -> None:
    value = "{'b': 1, 'a': {'y', 'x', 'z'}, 3: [0.1, 1e22]}"
    code = f"from ratchet.types import content_hash; print(content_hash({value}))"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_a_float_is_not_the_whole_number_it_equals() -> None:
    assert content_hash(1) != content_hash(1.0)
    assert content_hash(1) != content_hash(True)
    assert content_hash(0.1 + 0.2) != content_hash(0.3)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        {"a": [float("inf")]},
        [(-float("inf"),)],
        "a lone \ud800",
        {"\udfff": 1},
        object(),
        {(1, 2): 3},
    ],
)
def test_what_has_no_json_form_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="no JSON form"):
        content_hash(value)


def test_endless_nesting_is_refused() -> None:
    value: list[Any] = []
    for _ in range(10_000):
        value = [value]
    with pytest.raises(InputError, match="no JSON form"):
        content_hash(value)
