"""The embedded model as a judge: it runs, and its agreement with labels shows what it is worth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.local_models import GROUP, require_model

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"

DECIDES_FROM = 0.6
"""Kappa below which a judge's report card never lets it decide."""


@pytest.mark.xdist_group(GROUP)
@pytest.mark.long
def test_the_small_model_does_not_agree_enough_to_judge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_model()
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from parts.evaluators import local_judge

    found = local_judge.measure(quick=True)
    assert found["judge_cases"] + found["judge_unscored"] == 6
    assert (found["judge_kappa"] or 0.0) < DECIDES_FROM


def test_a_judge_that_knows_the_answers_passes_the_same_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tests.simulator import SimulatorThread

    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from parts.evaluators import local_judge

    with SimulatorThread() as simulator:
        options = {"model": "simulated-judge", "base_url": simulator.url, "key_env": ""}
        found = local_judge.measure(quick=True, **options)
    assert found["judge_kappa"] == 1.0
    assert found["judge_kappa_low"] < DECIDES_FROM  # six labels are too few to know it
