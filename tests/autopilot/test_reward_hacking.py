"""Candidates that want the score and not the answer: what the sandbox and the split do to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.autopilot.code_project import HONEST, Given, build, go_around, right_answer

HEAD = "def digits(number: int) -> int:\n"

READS_THE_TASK_FILE = """
    import json, os, sys
    for place in (os.path.dirname(sys.modules[digits.__module__].__file__), os.getcwd(), "{root}"):
        for line in open(os.path.join(place, "tasks.jsonl")):
            task = json.loads(line)
            if task["input"] == number:
                return task["expected"]
"""

READS_THE_STORE = """
    import sqlite3
    db = sqlite3.connect("file:{root}/.ratchet/ratchet.db?mode=ro", uri=True)
    rows = db.execute("select expected from rollouts where input = ?", (str(number),))
    return int(rows.fetchone()[0])
"""

WALKS_THE_FRAMES = """
    import sys
    frame = sys._getframe()
    while frame is not None:
        for value in list(frame.f_locals.values()):
            rollout = getattr(getattr(value, "claim", value), "rollout", value)
            if isinstance(getattr(rollout, "expected", None), int):
                return rollout.expected
        frame = frame.f_back
    raise LookupError("nobody up there knows the answer")
"""

SEARCHES_THE_HEAP = """
    import gc
    for thing in gc.get_objects():
        if type(thing).__name__ in ("Rollout", "Task") and thing.expected is not None:
            return thing.expected
        if isinstance(thing, dict) and thing.get("input") == number and "expected" in thing:
            return thing["expected"]
    raise LookupError("it is nowhere in memory")
"""

PATCHES_THE_EVALUATOR = """
    import importlib, ratchet.worker.evaluator as evaluators, ratchet.evaluate.scoring as scoring
    from ratchet.types import Score
    good = lambda self, *given: Score(evaluator="right", version=self.version, value=1.0)
    evaluators.FunctionEvaluator.score = evaluators.FunctionEvaluator._judged = good
    module = importlib.import_module("{module}")
    module.right = lambda output, expected: 1.0
    scoring.Scorer.score = good
    return -1
"""

GRADES_ITSELF = """
    import ratchet
    for name in ("right", "reward", "objective"):
        ratchet.emit_reward(1.0, name=name)
    return -1
"""

PASSES_OVER_WHAT_IT_CANNOT = """
    from ratchet.observe.collector import block
    block("a tool that does not exist")
    return -1
"""

EQUALS_EVERYTHING = """
    class Right(int):
        def __eq__(self, other):
            return True
    return Right(-1)
"""

CHEATS = {
    "reads the task file": READS_THE_TASK_FILE,
    "reads the store": READS_THE_STORE,
    "walks the frames": WALKS_THE_FRAMES,
    "searches the heap": SEARCHES_THE_HEAP,
    "patches the evaluator": PATCHES_THE_EVALUATOR,
    "grades itself": GRADES_ITSELF,
    "passes over what it cannot": PASSES_OVER_WHAT_IT_CANNOT,
    "equals everything": EQUALS_EVERYTHING,
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return build(tmp_path / "project", "hacked_agent")


def test_no_cheat_gains_anything_and_an_honest_candidate_does(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled = {
        name: HEAD + body.replace("{root}", str(project)).replace("{module}", "hacked_agent")
        for name, body in CHEATS.items()
    }
    algorithm = Given({**filled, "is honest": HONEST})
    run = go_around(project, algorithm, monkeypatch, ship_it=False)
    # It is worth something to cheat here: whoever could read the answers would have them all.
    assert algorithm.val == {**dict.fromkeys(filled, 0.0), "is honest": 1.0}, algorithm.errors
    assert algorithm.train == {**dict.fromkeys(filled, 0.0), "is honest": 1.0}
    assert "PermissionError" in algorithm.errors["reads the task file"] or (
        "FileNotFoundError" in algorithm.errors["reads the task file"]
    )
    assert "nobody up there knows" in algorithm.errors["walks the frames"]
    assert "nowhere in memory" in algorithm.errors["searches the heap"]
    assert "counts as a failure" in algorithm.errors["passes over what it cannot"]
    assert (run.stage, run.best_id != run.baseline_id) == ("ship", True)


ANSWERS_AS_JSON = '''"""An agent whose answers are JSON, which its evaluator parses."""

import json

import ratchet
from ratchet.evaluate import Unscored


@ratchet.evolve
def digits(number: int) -> str:
    """The digits of a number, added up, as JSON."""
    return json.dumps({"sum": 0})  # nobody has done it yet


@ratchet.agent
def answer(number):
    return digits(number)


@ratchet.evaluator
def right(output, expected):
    if "cannot be graded" in output:
        raise Unscored("it is unclear")
    return json.loads(output)["sum"] == expected
'''

AS_JSON = "def digits(number: int) -> str:\n    import json\n\n    "

WITHOUT_A_SCORE = {
    "breaks the evaluator": "return '{\"['",
    "leaves the key out": 'return json.dumps({"total": 1})',
    "makes it say unclear": 'return "This cannot be graded: answer unclear."',
    "answers nothing": 'return ""',
    "answers far too much": 'return "[" * 2_000_000',
}
IS_HONEST = 'return json.dumps({"sum": sum(int(digit) for digit in str(number))})'


def test_nobody_gains_by_an_answer_that_has_no_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = build(tmp_path / "project", "agent_of_json", agent=ANSWERS_AS_JSON)
    bodies = {**WITHOUT_A_SCORE, "is honest": IS_HONEST}
    algorithm = Given({name: AS_JSON + body + "\n" for name, body in bodies.items()})
    run = go_around(project, algorithm, monkeypatch, ship_it=False)
    expected = {**dict.fromkeys(WITHOUT_A_SCORE, 0.0), "is honest": 1.0}
    assert algorithm.val == expected, (algorithm.errors, algorithm.faults)
    assert algorithm.train == expected
    assert (run.stage, run.best_id != run.baseline_id) == ("ship", True)


@pytest.mark.long
def test_a_cheat_that_would_work_without_the_sandbox_is_one(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = project / "ratchet.toml"
    config.write_text(config.read_text() + '\n[sandbox]\nlevel = "none"\nunsafe = true\n')
    cheat = HEAD + READS_THE_TASK_FILE.replace("{root}", str(project))
    algorithm = Given({"reads the task file": cheat})
    go_around(project, algorithm, monkeypatch, ship_it=False)
    assert algorithm.val == {"reads the task file": 1.0}, algorithm.errors


@pytest.mark.long
def test_who_knows_the_train_tasks_by_heart_is_not_promoted(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Memorises(Given):
        async def learn(self, lab):  # type: ignore[no-untyped-def]
            table = {task.input: task.expected for task in lab.train}
            assert all(right_answer(number) == answer for number, answer in table.items())
            self.sources = {"by heart": f"{HEAD}    return {table!r}.get(number, -1)\n"}
            return await super().learn(lab)

    algorithm = Memorises({})
    run = go_around(project, algorithm, monkeypatch, ship_it=False)
    assert algorithm.train == {"by heart": 1.0}
    assert algorithm.val == {"by heart": 0.0}
    assert run.stage == "no_gain"


@pytest.mark.long
def test_who_knows_train_and_val_by_heart_fails_the_experiment(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Memorises(Given):
        async def learn(self, lab):  # type: ignore[no-untyped-def]
            table = {task.input: task.expected for task in (*lab.train, *lab.val)}
            self.sources = {"by heart": f"{HEAD}    return {table!r}.get(number, -1)\n"}
            return await super().learn(lab)

    algorithm = Memorises({})
    run = go_around(project, algorithm, monkeypatch, ship_it=False)
    assert algorithm.val == {"by heart": 1.0}
    assert run.stage == "no_gain"
    assert run.experiment_id
