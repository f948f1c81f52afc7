"""The weighted mean of other evaluators' scores."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ratchet.autopilot import Project
from ratchet.autopilot.project_evaluators import objective_of, project_evaluators
from ratchet.types import ConfigError, Rollout, Score, Task

SECTIONS = """
[agent]
entry = "module:function"

[[evaluators]]
use = "weighted"
name = "overall"
weights = {weights}

[[evaluators]]
use = "exact_match"

[[evaluators]]
use = "regex"
pattern = "please"
name = "polite"

[[evaluators]]
use = "cost"
"""


def scored(tmp_path: Path, output: str, weights: str) -> Score:
    """The score of an output by the project's first evaluator."""
    (tmp_path / "module.py").write_text("def function(x):\n    return x\n")
    (tmp_path / "ratchet.toml").write_text(SECTIONS.replace("{weights}", weights))
    project = Project.find(tmp_path)
    agent = project.load_agent()
    evaluators = project_evaluators(project)
    assert objective_of(project.config, evaluators, agent) == "overall"
    assert evaluators[0].needs_expected
    task = Task("t", "in", expected="yes please")
    rollout = Rollout.of(task, "c", scope=(), seed_parts=(), queue="q", purpose="", max_attempts=1)
    ended = rollout.__class__(
        **{**{f: getattr(rollout, f) for f in rollout.__struct_fields__}, "output": output}
    )
    return asyncio.run(evaluators[0].score(ended, lambda _: []))


@pytest.mark.parametrize(
    ("output", "value"), [("yes please", 1.0), ("no, please", 0.25), ("no", 0.0)]
)
def test_it_is_the_mean_by_weight_and_names_its_parts(
    tmp_path: Path, output: str, value: float
) -> None:
    score = scored(tmp_path, output, "{ exact_match = 3, polite = 1 }")
    assert score.value == value
    assert score.rationale.startswith("exact_match")


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ("{ exact_match = 1 }", "at least two"),
        ("{ exact_match = 1, tone = 1 }", "'tone', which is not an evaluator here"),
        ("{ exact_match = 1, polite = 0 }", "'polite' is not positive"),
        ("{ exact_match = 1, cost = 1 }", "measured in USD"),
    ],
)
def test_weights_that_cannot_be_are_refused_with_what_is_wrong(
    tmp_path: Path, weights: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        scored(tmp_path, "yes", weights)
