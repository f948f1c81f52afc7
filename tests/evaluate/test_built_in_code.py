"""What `code_tests` says of code, run in the sandbox."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet import sandbox
from ratchet.evaluate import code_tests
from ratchet.sandbox import SandboxUnavailable, best_level
from ratchet.types import InputError, Score
from tests.evaluate.conftest import ended, verdict

needs_a_sandbox = pytest.mark.skipif(best_level() == "none", reason="this machine has no sandbox")

DOUBLE = "def double(x):\n    return 2 * x"
WRONG = "def double(x):\n    return x"
CASES = [{"args": [2], "result": 4}, {"kwargs": {"x": 0}, "result": 0}]


def scored(output: Any, expected: Any, **options: Any) -> Score:
    return verdict(code_tests(**options), ended(output, expected))


@needs_a_sandbox
def test_code_passes_tests_in_source() -> None:
    tests = ["assert double(2) == 4", "assert double(0) == 0"]
    answer = f"Here it is:\n```python\n{DOUBLE}\n```\nCall it so:\n```\ndouble(2)\n```"
    assert scored(answer, tests).value == 1
    assert scored(DOUBLE, "assert double(2) == 4\nassert double('a') == 'aa'").value == 1
    wrong = scored(WRONG, tests)
    assert wrong.value == 0
    assert "test 1: " in wrong.rationale
    assert "AssertionError" in wrong.rationale
    assert scored(WRONG, tests, partial=True).value == 0.5


@needs_a_sandbox
def test_results_are_compared_outside_of_the_sandbox() -> None:
    assert scored(DOUBLE, CASES, function="double").value == 1
    wrong = scored(WRONG, CASES, function="double")
    assert (wrong.value, wrong.rationale) == (0, "test 1: the value: expected 4, got 2")
    cheats = "class Any:\n    def __eq__(self, other): return True\ndef double(x): return Any()"
    assert scored(cheats, CASES, function="double").value == 0


@needs_a_sandbox
@pytest.mark.parametrize(
    "code",
    [
        "import sys\nsys.exit(0)",
        "import os\nos._exit(0)",
        "def double(x): raise SystemExit(0)",
        "this is no code",
        "while True: pass",
        "import socket\nsocket.create_connection(('127.0.0.1', 9))",
        "x = 'a' * 10**12",
    ],
)
def test_code_that_ends_or_hangs_before_its_tests_fails_them(code: str) -> None:
    score = scored(code, "assert double(2) == 4", seconds=1)
    assert (score.value, score.error) == (0, "")


@pytest.mark.parametrize("output", ["", None, 42, {"code": "x = 1"}])
def test_an_output_without_code_fails(output: Any) -> None:
    assert scored(output, "assert True").value == 0


def test_without_a_sandbox_there_is_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(**_: Any) -> Any:
        raise SandboxUnavailable("This machine has no sandbox.")

    monkeypatch.setattr(sandbox, "function_pool", unavailable)
    score = scored(DOUBLE, "assert True")
    assert (score.value, score.error) == (None, "SandboxUnavailable: This machine has no sandbox.")


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        (None, "no tests"),
        ([], "no tests"),
        ([3], "must be source code, or an object"),
        ([{"args": [1]}], "must be source code, or an object"),
        (CASES, "need the option `function`"),
        (["assert True"] * 101, "more than 100 tests"),
    ],
)
def test_tests_that_cannot_be_run_are_named(expected: Any, words: str) -> None:
    score = scored(DOUBLE, expected)
    assert score.value is None
    assert words in score.error


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="seconds = 0"):
        code_tests(seconds=0)
    with pytest.raises(InputError, match="The tolerance is -1"):
        code_tests(tolerance=-1)
