"""Functions that evolve, all the way: checked, evaluated in the sandbox, proved, and shipped."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from tests import interpreters
from tests.autopilot.code_project import AGENT, HONEST, Given, build, go_around, loaded
from tests.repositories import git

from ratchet.autopilot import Project
from ratchet.autopilot.checks import make_checks
from ratchet.autopilot.code_sandbox import hidden_paths, is_self_graded
from ratchet.types import Code

TESTS = """
import unittest
from {module} import digits

class TestDigits(unittest.TestCase):
    def test_small(self):
        self.assertEqual(digits(0), 0)

    def test_it_never_says_seven(self):
        self.assertEqual(digits(7), 0)

    def test_it_is_whole(self):
        self.assertIsInstance(digits(5), int)
"""


def faults(root: Path, *sources: str, said: list[str] | None = None) -> list[str]:
    """What the project's checks say of these sources of `digits`."""
    with loaded(root):
        project = Project.find(root)
        agent = project.load_agent()
        baseline = project.source_candidate(agent)
        told: list[str] = [] if said is None else said
        checks = make_checks(project, agent, baseline, told.append)

        async def main() -> list[str]:
            made = [
                baseline.derive({"digits": Code(source, "digits")}, algorithm="test")
                for source in sources
            ]
            return [await checks(c) or await checks.test(c) for c in made]

        return asyncio.run(main())


def test_a_better_function_is_proved_in_the_sandbox_and_shipped_as_a_branch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = AGENT + "\n\ndef other():\n    return 0\n"
    root = build(tmp_path / "project", "shipped_agent", agent=agent)
    (root / "test_agent.py").write_text(
        "from shipped_agent import digits\n\ndef test_zero():\n    assert digits(0) == 0\n"
    )
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "tests")
    algorithm = Given({"adds up": HONEST, "breaks the test": HONEST.replace("sum(", "1 + sum(")})
    run = go_around(root, algorithm, monkeypatch)
    assert algorithm.faults["adds up"] == ""
    assert "test_zero" in algorithm.faults["breaks the test"]
    assert run.stage == "shipped"
    branch = git(root, "branch", "--format=%(refname:short)").split()[-1]
    diff = git(root, "diff", "main", branch)
    changed = [
        line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    assert changed == [
        "-    return 0  # nobody has done it yet",
        "+    return sum(int(digit) for digit in str(number))",
    ]
    assert git(root, "status", "--porcelain") == ""
    evidence = json.loads(next((root / ".ratchet" / "evidence").glob("*.json")).read_text())
    assert json.dumps(evidence).count("candidate") > 0


def test_candidates_are_checked_before_they_cost_a_rollout(tmp_path: Path) -> None:
    root = build(tmp_path / "project", "checked_agent")
    (root / "tests").mkdir()
    (root / "tests" / "test_digits.py").write_text(TESTS.format(module="checked_agent"))
    (root / "tests" / "test_other.py").write_text("def test_nothing():\n    assert False\n")
    head = "def digits(number: int) -> int:\n"
    fine, renamed, absent, network, broken, unfit = faults(
        root,
        f"{head}    return 0 if number < 10 else sum(map(int, str(number)))\n",
        "def digits(n: int) -> int:\n    return n\n",
        f"{head}    import numpee\n    return number\n",
        f"{head}    import socket\n    return number\n",
        f"{head}    return number * 2.5 if number == 5 else 0\n",
        f"{head}    raise SystemExit(0)\n",
    )
    assert fine == ""
    assert "changes its parameters to n. Keep `def digits(number: int) -> int`" in renamed
    assert "numpee, which is not installed" in absent
    assert "may not use the network" in network
    assert "test_it_is_whole" in broken
    assert (
        "test_it_never_says_seven" in unfit or "tests of the repository pass; without it" in unfit
    )


def test_a_test_that_fails_anyway_is_not_held_against_a_candidate(tmp_path: Path) -> None:
    root = build(tmp_path / "project", "failing_agent")
    text = TESTS.format(module="failing_agent").replace("digits(7), 0", "digits(7), 8")
    (root / "test_digits.py").write_text(text)
    said: list[str] = []
    worse = "def digits(number: int) -> int:\n    return -1 if number == 0 else 0\n"
    fine, broken = faults(root, HONEST, worse, said=said)
    assert fine == ""
    assert "test_small" in broken
    assert "seven" not in broken.partition(". ")[0]
    assert [text.rpartition(": ")[2] for text in said] == ["test_digits.py."]


@pytest.mark.long
def test_unittest_and_the_configured_command_are_understood(tmp_path: Path) -> None:
    root = build(
        tmp_path / "project", "unit_agent", config='\n[ship]\ntest = "{python} -m unittest"\n'
    )
    (root / "test_digits.py").write_text(
        "import unittest\nfrom unit_agent import digits\n\nclass TestDigits(unittest.TestCase):\n"
        "    def test_zero(self):\n        self.assertEqual(digits(0), 0)\n"
    )
    fine, broken = faults(root, HONEST, HONEST.replace("sum(", "1 + sum("))
    assert fine == ""
    assert "test_zero" in broken


def test_tests_of_a_candidate_see_neither_answers_nor_the_users_files(tmp_path: Path) -> None:
    root = build(tmp_path / "project", "curious_agent")
    (root / "test_digits.py").write_text(TESTS.format(module="curious_agent"))
    (root / ".env").write_text("KEY=secret")
    body = f"""
    import os
    found = [os.path.exists(name) for name in ("tasks.jsonl", ".env", ".git", ".ratchet")]
    for name in ("tasks.jsonl", ".env"):
        try:
            found.append(bool(open({str(root)!r} + "/" + name).read()))
        except OSError:
            pass
    try:
        open({str(root)!r} + "/written", "w")
        found.append(True)
    except OSError:
        pass
    return 1 if any(found) else 0
"""
    assert faults(root, f"def digits(number: int) -> int:{body}") == [""]
    assert not (root / "written").exists()


def test_mypy_is_asked_where_the_repository_asks_it(tmp_path: Path) -> None:
    root = build(tmp_path / "project", "typed_agent")
    wrong = "def digits(number: int) -> int:\n    return str(number)\n"
    assert faults(root, wrong) == [""]
    (root / "pyproject.toml").write_text('[tool.mypy]\nstrict = true\nfollow_imports = "skip"\n')
    fine, said = faults(root, HONEST, wrong)
    assert fine == ""
    assert "Incompatible return value type" in said


def test_an_agent_that_grades_itself_keeps_its_code(tmp_path: Path) -> None:
    agent = AGENT.replace(
        "@ratchet.agent\ndef answer(number)", "@ratchet.rollout\ndef answer(number)"
    )
    root = build(tmp_path / "project", "grading_agent", agent=agent)
    assert "grades itself" in faults(root, HONEST)[0]
    config = root / "ratchet.toml"
    config.write_text(config.read_text() + "\n[sandbox]\nunsafe_self_graded = true\n")
    assert faults(root, HONEST) == [""]


def test_what_no_sandbox_may_read_is_named(tmp_path: Path) -> None:
    config = '\n[sandbox]\nhide = ["gold"]\n\n[[evaluators]]\nuse = "a:b"\nfile = "answers.csv"\n'
    root = build(tmp_path / "project", "hiding_agent", config=config)
    (root / "answers.csv").write_text("x")
    (root / ".env.local").write_text("KEY=secret")
    with loaded(root):
        project = Project.find(root)
        shown = {path.relative_to(root).as_posix() for path in hidden_paths(project)}
        assert shown == {
            "tasks.jsonl",
            "gold",
            ".ratchet",
            ".git",
            ".env.local",
            "answers.csv",
        }
        assert not is_self_graded(project, project.load_agent())


BLOCKS = '''
import ratchet


def digits(number: int) -> int:
    """The digits of a number, added up."""
    total = 0
    # EVOLVE-BLOCK-START
    total += 0
    # EVOLVE-BLOCK-END
    return total


TOOLS = [digits]


@ratchet.agent
def answer(number):
    return TOOLS[0](number)


@ratchet.evaluator
def right(output, expected):
    return output == expected
'''


@pytest.mark.long
def test_a_block_evolves_and_ships_and_nothing_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = build(tmp_path / "project", "blocked_agent", agent=BLOCKS)
    before = BLOCKS.partition("def digits")[2].partition("\n\n\n")[0]
    source = f"def digits{before}\n"
    better = source.replace("total += 0", "for digit in str(number):\n        total += int(digit)")
    algorithm = Given({"adds up": better, "leaves": better.replace("return total", "return 1")})
    run = go_around(root, algorithm, monkeypatch)
    assert "changes lines outside its # EVOLVE-BLOCK-START" in algorithm.faults["leaves"]
    assert (algorithm.val["adds up"], run.stage) == (1.0, "shipped")
    branch = git(root, "branch", "--format=%(refname:short)").split()[-1]
    changed = [line for line in git(root, "diff", "main", branch).splitlines() if line[:1] in "+-"]
    assert [line for line in changed if line[:3] not in ("+++", "---")] == [
        "-    total += 0",
        "+    for digit in str(number):",
        "+        total += int(digit)",
    ]


def test_doing_without_a_sandbox_says_what_it_gives_up(tmp_path: Path) -> None:
    root = build(tmp_path / "project", "unsafe_agent")
    (root / "tasks.jsonl").unlink()
    done = interpreters.run(
        [sys.executable, "-m", "ratchet", "improve", "--unsafe-no-sandbox"],
        cwd=root,
    )
    assert "runs with your rights" in " ".join(done.stderr.split())
