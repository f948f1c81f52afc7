"""An upstream for recorded programs: a real server in which the simulated model answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ratchet.run.model_relay import ModelRelay
from ratchet.wire.recording.simulated_model import SimulatedModel


@pytest.fixture
def upstream() -> Iterator[str]:
    with ModelRelay(answering=SimulatedModel().answer) as server:
        yield server.url
