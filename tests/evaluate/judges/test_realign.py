"""Re-alignment: labelled cases teach a judge, and what it is measured on it has not seen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from ratchet.evaluate.judges import Criterion, Judge
from ratchet.evaluate.judges.realign import LabelledRollout, Realigned, realign
from ratchet.types import InputError
from tests.evaluate.conftest import ended, verdict
from tests.evaluate.judges.conftest import simulated
from tests.simulator import SimulatorThread

ELM = "Does the answer name 'Elm'?"


def labelled(n: int) -> list[LabelledRollout]:
    return [
        LabelledRollout(
            ended("Elm" if k % 3 else "Oak", id=f"r{k}", input=f"question {k}"), float(k % 3 > 0)
        )
        for k in range(n)
    ]


def aligned(simulator: SimulatorThread, model: str, cases: list[LabelledRollout]) -> Realigned:
    judge = simulated(simulator, model=model, criteria=[ELM])
    return asyncio.run(realign(judge, cases, lambda _: []))


def test_a_judge_that_learns_from_cases_agrees_better_on_held_out_labels(
    simulator: SimulatorThread, tmp_path: Path
) -> None:
    found = aligned(simulator, "simulated-judge-untaught", labelled(60))
    assert found.before.kappa is not None
    assert found.before.kappa.value == 0.0
    assert found.before.accuracy == found.before.majority
    assert found.after.kappa is not None
    assert found.after.kappa.value == 1.0
    assert found.examples == 2
    (tmp_path / "a.json").write_text(json.dumps(json_of(found)))
    judge = simulated(
        simulator,
        model="simulated-judge-untaught",
        criteria=[ELM],
        folder=str(tmp_path),
        alignment="a.json",
    )
    right, wrong = verdict(judge, ended("Elm")).value, verdict(judge, ended("Oak")).value
    assert right is not None
    assert wrong is not None
    assert wrong < 0.2 < 0.8 < right < 1.0


def json_of(found: Realigned) -> object:
    return msgspec.to_builtins(found.alignment)


def test_what_is_tested_on_is_neither_shown_nor_chosen_by(simulator: SimulatorThread) -> None:
    cases = labelled(60)
    found = aligned(simulator, "simulated-judge-untaught", cases)
    assert found.chosen_by + found.after.cases == 60
    twice = [*cases, *(LabelledRollout(c.rollout, c.label) for c in cases)]
    again = aligned(simulator, "simulated-judge-untaught", twice)
    assert again.chosen_by == 2 * found.chosen_by  # equal inputs stay together


def test_a_new_wording_is_measured_on_sealed_labels_and_asked_from_then_on(
    simulator: SimulatorThread, tmp_path: Path
) -> None:
    seen: list[str] = []

    async def reword(
        judge: Judge, train: Sequence[LabelledRollout], val: Sequence[LabelledRollout]
    ) -> tuple[Criterion, ...]:
        seen.extend(case.rollout.id for case in (*train, *val))
        return tuple(msgspec.structs.replace(c, question=ELM) for c in judge.spec.criteria)

    oak = "Does the answer name 'Oak'?"
    judge = simulated(simulator, criteria=[Criterion(oak, 2.0)])
    found = asyncio.run(realign(judge, labelled(60), lambda _: [], reword=reword))
    assert found.alignment.wording == {oak: ELM}
    assert found.before.kappa is not None
    assert found.before.kappa.value < 0
    assert found.after.kappa is not None
    assert found.after.kappa.value == 1.0
    assert len(seen) + found.after.cases == 60
    (tmp_path / "a.json").write_text(json.dumps(json_of(found)))
    options = {"folder": str(tmp_path), "alignment": "a.json"}
    aligned = simulated(simulator, criteria=[Criterion(oak, 2.0)], **options)
    assert aligned.judge.spec.criteria == (Criterion(ELM, 2.0),)
    again = asyncio.run(realign(aligned, labelled(60), lambda _: []))
    assert again.alignment.wording == {oak: ELM}  # it stays without a new search
    edited = simulated(simulator, criteria=["Is it 'Oak'?"], **options)
    assert edited.judge.spec.criteria == (Criterion("Is it 'Oak'?"),)


def test_too_few_or_one_sided_labels_are_refused_with_what_is_missing(
    simulator: SimulatorThread,
) -> None:
    with pytest.raises(InputError, match=r"12 labelled cases are too few .* 18 more are needed"):
        aligned(simulator, "simulated-judge", labelled(12))
    one_sided = [LabelledRollout(c.rollout, 1.0) for c in labelled(40)]
    with pytest.raises(InputError, match="All 40 labels say right"):
        aligned(simulator, "simulated-judge", one_sided)
    one_input = [
        LabelledRollout(ended("Elm", id=f"r{k}", input="same"), float(k % 2)) for k in range(40)
    ]
    with pytest.raises(InputError, match="1 distinct input"):
        aligned(simulator, "simulated-judge", one_input)
