"""Fixtures of the dialects: spans as real instrumentations wrote them, and how they are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ratchet.observe.dialects import normalise
from ratchet.types import SpanEvent

Captured = Callable[[str, str], list[dict[str, Any]]]


@pytest.fixture(scope="session")
def captured() -> Captured:
    """Attributes in the span model of the captured spans of a name: `captured(file, name)`."""

    def read(file: str, name: str) -> list[dict[str, Any]]:
        whole = json.loads((Path(__file__).parent / "captured" / f"{file}.json").read_text())
        found = []
        for span in whole["spans"]:
            if span["name"] == name:
                events = [
                    msgspec.convert({"time_ns": 1, **event}, SpanEvent)
                    for event in span.get("events", ())
                ]
                model = normalise(name, span["attributes"], events)
                assert model.items() >= span["attributes"].items(), "an original is gone"
                found.append(model)
        assert found, f"no span {name!r} in {file}"
        return found

    return read
