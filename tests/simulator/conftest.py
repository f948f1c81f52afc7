"""The simulator as tests use it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulator import Settings, SimulatorThread


@pytest.fixture(scope="module")
def simulator() -> Iterator[SimulatorThread]:
    """A simulator without latency."""
    with SimulatorThread(Settings(seed="1")) as running:
        yield running
