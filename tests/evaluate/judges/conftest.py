"""Judges of the simulator, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ratchet.evaluate import make_evaluator
from ratchet.evaluate.judges import JudgeEvaluator
from tests.simulator import SimulatorThread


@pytest.fixture(scope="session")
def simulator() -> Iterator[SimulatorThread]:
    """The simulator, whose calls are told apart by labels in its address."""
    with SimulatorThread() as running:
        yield running


def simulated(simulator: SimulatorThread, label: str = "", **options: Any) -> JudgeEvaluator:
    """A judge of the simulator."""
    given = {"model": "simulated-judge"} if "models" not in options else {}
    made = make_evaluator(
        "judge",
        {
            "base_url": simulator.base_url(label=label),
            "key_env": "",
            "input_price": 1.0,
            "output_price": 2.0,
            **given,
            **options,
        },
    )
    assert isinstance(made, JudgeEvaluator)
    return made
