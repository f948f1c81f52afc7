"""A plain function becomes an evaluator, and whatever it does ends in a score or an error."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ratchet
from ratchet.evaluate import FunctionEvaluator, Judgement, evaluator
from ratchet.types import InputError, Span
from tests.evaluate.conftest import ended, verdict


def test_it_gets_what_its_parameters_name() -> None:
    seen: dict[str, Any] = {}

    @ratchet.evaluator
    def everything(spans, metadata, output, input, expected, rollout):  # type: ignore[no-untyped-def]
        seen.update(locals())
        return 1

    span = Span(trace_id="t", span_id="s", name="n", start_ns=1, end_ns=2)
    rollout = ended("out", "exp", input="in", metadata={"m": 1})
    score = asyncio.run(everything.score(rollout, lambda id: [span] if id == "r" else []))
    seen.pop("seen")
    assert score.value == 1
    assert seen == {
        "output": "out",
        "expected": "exp",
        "input": "in",
        "metadata": {"m": 1},
        "rollout": rollout,
        "spans": [span],
    }


def test_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(InputError, match="parameter 'answer'; it may have output, expected"):
        evaluator(lambda answer: 1)


def test_name_unit_and_the_function_itself() -> None:
    @evaluator(name="words", unit="words")
    def count(output: str) -> int:
        return len(output.split())

    assert (count.name, count.unit, count.__name__) == ("words", "words", "count")
    assert count("a b c") == 3
    assert verdict(count, ended("a b c")).value == 3


class Countless:
    def __call__(self, output: str) -> float:
        return 0.25


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (lambda output: True, 1.0),
        (lambda output: False, 0.0),
        (lambda output: 0.5, 0.5),
        (lambda: 1, 1.0),
        (lambda output: np.float64(0.5), 0.5),
        (lambda output: Judgement(0.5, "why"), 0.5),
        (Countless(), 0.25),
    ],
)
def test_numbers_booleans_and_judgements_are_scores(function: Any, value: float) -> None:
    score = verdict(evaluator(function), ended("a"))
    assert (score.value, score.error) == (value, "")
    assert type(score.value) is float


def test_a_judgement_says_why() -> None:
    assert verdict(evaluator(lambda: Judgement(0.5, "why")), ended()).rationale == "why"
    reason: Any = None
    assert verdict(evaluator(lambda: Judgement(0.5, reason)), ended()).rationale == "None"
    assert len(verdict(evaluator(lambda: Judgement(0.5, "x" * 10**6)), ended()).rationale) < 10**4


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        (1.5, "It returned 1.5; a score must be between 0 and 1"),
        (-0.1, "It returned -0.1; a score must be between 0 and 1"),
        (float("nan"), "It returned nan, which is not finite."),
        (float("inf"), "It returned inf, which is not finite."),
        (10**400, "OverflowError"),
        (
            None,
            "It returned NoneType instead of a number, a Boolean or Judgement(value, rationale).",
        ),
        (
            "0.5",
            "It returned str instead of a number, a Boolean or Judgement(value, rationale).",
        ),
        (Judgement("good"), "It returned str instead"),  # type: ignore[arg-type]
        (Judgement(2), "It returned 2; a score must"),
    ],
)
def test_what_is_no_score_is_an_error_and_no_zero(returned: Any, error: str) -> None:
    score = verdict(evaluator(lambda: returned, name="e"), ended())
    assert score.value is None
    assert score.error.startswith(error)


def test_numbers_with_a_unit_may_be_any() -> None:
    assert verdict(evaluator(lambda: -3.5, unit="°C"), ended()).value == -3.5
    assert verdict(evaluator(lambda: float("nan"), unit="°C"), ended()).value is None


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def raising(error: BaseException) -> Callable[[], Any]:
    def judge() -> float:
        raise error

    return judge


def raising_async(error: BaseException) -> Callable[[], Any]:
    async def judge() -> float:
        await asyncio.sleep(0)
        raise error

    return judge


@pytest.mark.parametrize("make", [raising, raising_async])
@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ValueError("broken"), "ValueError: broken"),
        (TimeoutError("the judge's own"), "TimeoutError: the judge's own"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (asyncio.CancelledError(), "ancelled"),
        (Mute(), "Mute"),
        (ValueError("x" * 10**6), "ValueError: xxx"),
    ],
)
def test_what_it_raises_is_an_error_score(make: Any, error: BaseException, shown: str) -> None:
    score = verdict(evaluator(make(error)), ended())
    assert score.value is None
    assert shown in score.error
    assert len(score.error) < 10_000


def test_a_sync_function_that_hangs_is_left_behind() -> None:
    release = threading.Event()
    hanging = evaluator(lambda: release.wait(60) and 1.0, timeout_s=0.05)
    score = verdict(hanging, ended())
    release.set()
    assert (score.value, score.error) == (None, "No verdict within 0.05 s.")


def test_an_async_function_that_swallows_its_cancellation_holds_nobody_up() -> None:
    release = asyncio.Event()

    @evaluator(timeout_s=0.05)
    async def stubborn() -> float:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return 1.0

    async def judged() -> Any:
        score = await stubborn.score(ended(), lambda _: [])
        release.set()
        return score

    assert asyncio.run(judged()).error == "No verdict within 0.05 s."


def test_cancelling_from_outside_goes_through() -> None:
    @evaluator
    async def hangs() -> float:
        await asyncio.Event().wait()
        return 1.0

    async def outside() -> None:
        task = asyncio.create_task(hangs.score(ended(), lambda _: []))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(outside())


def test_async_forms() -> None:
    @evaluator
    async def judge(output: str) -> Judgement:
        await asyncio.sleep(0)
        return Judgement(0.5, output)

    class Judge:
        async def __call__(self, output: str) -> float:
            await asyncio.sleep(0)
            return 0.75

    assert verdict(judge, ended("a")).rationale == "a"
    assert verdict(evaluator(Judge(), name="j"), ended("a")).value == 0.75


def test_what_one_function_changes_no_other_sees() -> None:
    @evaluator
    def greedy(output: Any, metadata: Any, rollout: Any) -> float:
        output.clear()
        metadata["x"] = 2
        rollout.expected.append(1)
        return 1.0

    rollout = ended({"a": 1}, [0], metadata={"x": 1})
    assert verdict(greedy, rollout).value == 1
    assert (rollout.output, rollout.expected, rollout.metadata) == ({"a": 1}, [0], {"x": 1})


def test_a_store_that_fails_gives_an_error_score() -> None:
    def broken(_: str) -> list[Span]:
        raise OSError("disk")

    @evaluator
    def uses_spans(spans: list[Span]) -> float:
        return 1.0

    assert asyncio.run(uses_spans.score(ended(), broken)).error == "OSError: disk"


SOURCE = """
    import ratchet

    @ratchet.evaluator
    def judge(output):
        return {value}

    class Judge:
        def __call__(self, output):
            return {value}

    called = ratchet.evaluator(Judge())
    exec("def made(output):\\n    return [{value} for _ in 'x' if _ in {{'x', 'y', 'z'}}][0]")
    made = ratchet.evaluator(made)
    print(judge.version, called.version, made.version)
"""


def versions(folder: Path, value: float, seed: str = "0") -> list[str]:
    path = folder / "own.py"
    path.write_text(textwrap.dedent(SOURCE.format(value=value)))
    ran = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.split()


def test_the_version_follows_the_source_in_every_process(tmp_path: Path) -> None:
    first = versions(tmp_path, 0.5, "1")
    assert versions(tmp_path, 0.5, "2") == first
    changed = versions(tmp_path, 0.75)
    assert all(one != other for one, other in zip(first, changed, strict=True))


def test_the_version_follows_name_and_unit() -> None:
    def judge() -> float:
        return 1.0

    plain = FunctionEvaluator(judge, name="a")
    assert plain.version == FunctionEvaluator(judge, name="a").version
    assert plain.version != FunctionEvaluator(judge, name="b").version
    assert plain.version != FunctionEvaluator(judge, name="a", unit="s").version
    assert plain.version != FunctionEvaluator(judge, name="a", options={"k": 1}).version
