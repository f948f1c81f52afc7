"""The repository's own tests as a check: what is run, and what of its output counts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from ratchet.learn import Budget
from ratchet.learn.checks import CandidateChange, CheckRun, Copies, OwnTests
from ratchet.source import SourceTree
from ratchet.store import Store
from ratchet.types import Candidate, Declaration
from tests.learn.conftest import FakeRunner, make_lab

from .conftest import change, code

MakeRepository = Callable[[dict[str, str]], Path]

FILES = {
    "mod.py": "def f(x):\n    return x\n",
    "tests/test_mod.py": "from mod import f\n\ndef test_f():\n    assert f(1)\n",
    "pytest.ini": "",
    ".env": "KEY=secret",
    "tasks.jsonl": "secret",
}


class Recorded:
    """Answers commands with given output, and keeps what was asked."""

    def __init__(self, *answers: CheckRun) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []
        self.seen: list[list[str]] = []
        self.limits: list[float | None] = []
        self.path = ""

    async def __call__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        seconds: float | None = None,
    ) -> CheckRun:
        self.limits.append(seconds)
        self.asked.append(list(command))
        self.seen.append(sorted(p.name for p in folder.iterdir()))
        self.path = (folder / "mod.py").read_text()
        assert environment["PYTHONPATH"].split(":")[0] == str(folder)
        return self.answers.pop(0)


def ran(output: str, exit_code: int | None = 0) -> CheckRun:
    return CheckRun(code=exit_code, output=output)


def check(root: Path, recorded: Recorded, *, command: str | None = None) -> tuple[str, list[str]]:
    """The verdict on a change of `f`, and what was said."""
    said: list[str] = []
    own = OwnTests(
        tree=SourceTree(root),
        targets={"f": Declaration("f", code(FILES["mod.py"]), str(root / "mod.py"), 1, "f")},
        patch=lambda candidate: {"mod.py": b"patched = True\n"},
        copies=Copies(root, [root / "tasks.jsonl"]),
        command=command,
        run=recorded,
        say=said.append,
    )
    made: CandidateChange = change(
        code(FILES["mod.py"]), code("def f(x):\n    return 2 * x\n"), "f"
    )
    return asyncio.run(own(made)), said


def test_the_patch_is_tested_in_a_copy_without_secrets_and_answers(
    repository: MakeRepository,
) -> None:
    root = repository(FILES)
    recorded = Recorded(ran("1 passed in 0.1s"), ran("1 passed in 0.1s"))
    fault, told = check(root, recorded)
    assert fault == ""
    assert [text.rpartition(": ")[2] for text in told] == ["tests/test_mod.py."]
    assert recorded.seen[0] == ["mod.py", "pytest.ini", "tests"]
    assert recorded.path == "patched = True\n"
    assert (root / "mod.py").read_text() == FILES["mod.py"]


@pytest.mark.parametrize(
    ("command", "start"),
    [
        (None, [sys.executable, "-m", "pytest", "-q"]),
        ("{python} -m pytest tests -x -c pytest.ini", ["-m", "pytest", "-x", "-c", "pytest.ini"]),
        ("pytest tests/test_mod.py::test_f", ["pytest"]),
    ],
)
def test_pytest_is_given_the_files_that_touch_the_function(
    repository: MakeRepository, command: str | None, start: list[str]
) -> None:
    recorded = Recorded(ran("1 passed"), ran("1 passed"))
    check(repository(FILES), recorded, command=command)
    for asked in recorded.asked:
        assert "tests/test_mod.py" in asked
        assert "tests" not in asked
        assert [word for word in asked if word in start] == start


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (ran("2 passed"), ran("FAILED t.py::a - x\n1 failed, 1 passed", 1), "t.py::a. FAILED"),
        (ran("FAILED t.py::a - x\n1 failed, 1 passed", 1), ran("1 passed, 1 deselected"), ""),
        (ran("2 passed"), ran("", 0), "0 tests of the repository pass; without it, 2"),
        (ran("2 passed"), ran("", None), "the tests' time"),
        (ran("2 passed"), ran("Segmentation fault", -11), "the run itself (exit code -11)"),
        (ran("2 passed"), ran("ERROR t.py\n1 error", 2), "t.py. ERROR"),
    ],
)
def test_only_what_fails_because_of_the_candidate_counts(
    repository: MakeRepository, before: CheckRun, after: CheckRun, said: str
) -> None:
    fault, told = check(repository(FILES), Recorded(before, after))
    assert len(told) == 1
    assert "must pass" in told[0]
    assert (said in fault) if said else (fault == "")


@pytest.mark.parametrize(("before", "limit"), [(0.1, 20.0), (30.0, 300.0)])
def test_tests_that_hang_beside_a_candidate_do_not_take_all_the_time_there_is(
    repository: MakeRepository, before: float, limit: float
) -> None:
    own = CheckRun(code=0, output="1 passed", seconds=before)
    recorded = Recorded(own, ran("", None))
    fault, _ = check(repository(FILES), recorded)
    assert recorded.limits == [None, limit]
    assert "the tests' time" in fault


def test_a_verdict_is_journaled_so_that_a_resumed_run_hears_the_same(
    make_store: Callable[[], Store],
) -> None:
    store = make_store()
    baseline = Candidate.of({"f": code(FILES["mod.py"])})
    other = Candidate.of({"f": code("def f(x):\n    return 1\n")})

    async def first(candidate: Candidate) -> str:
        return "a test failed just then"

    async def second(candidate: Candidate) -> str:
        return ""

    def verdict(checks: Callable[[Candidate], object]) -> str:
        runner = FakeRunner(store, lambda resources, given: 1.0)
        lab = make_lab(runner, store, baseline, budget=Budget(), checks=checks)  # type: ignore[arg-type]
        return asyncio.run(lab.check(other))

    assert verdict(first) == verdict(second) == "a test failed just then"
