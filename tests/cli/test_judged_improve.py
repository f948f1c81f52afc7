"""`ratchet improve` by a judge: the decision waits for people's labels, and is made with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import MakeProject
from tests.simulator import SimulatorThread

AGENT = """
import ratchet

KNOBS = ratchet.params("knobs", style=ratchet.Choice("short", ["short", "full"]))


@ratchet.agent
def answer(number):
    return "Elm has a screen." if KNOBS.style == "full" else "Elm."
"""

CONFIG = """
[agent]
entry = "agent:answer"

[[evaluators]]
use = "judge"
name = "helpful"
criteria = ["Does the answer name 'Elm'?", "Does it say what is in the 'screen' room?"]
model = "simulated-judge"
base_url = "{url}"
key_env = ""

[improve]
algorithm = "tune"

[improve.options]
max_trials = 3

[prove]
labels = 20
repetitions = 1

[[guardrails]]
metric = "latency"
off = true

[run]
executor = "inline"
"""


@pytest.mark.parametrize(
    ("after", "verdict"),
    [pytest.param(1.0, "promote", marks=pytest.mark.long), (0.0, "unconfirmed")],
)
def test_a_judges_gain_is_withheld_and_then_decided_by_labels(
    make_project: MakeProject, tmp_path: Path, after: float, verdict: str
) -> None:
    with SimulatorThread() as simulator:
        project = make_project(agent=AGENT, config=CONFIG.format(url=simulator.url), tasks=120)
        waiting: dict[str, Any] = project.json("improve")
        assert (waiting["stage"], waiting["verdict"], waiting["branch"]) == ("prove", None, None)
        assert "ratchet label --experiment" in waiting["message"]
        experiment = waiting["message"].split("--experiment ")[1].strip(".")
        asked: dict[str, Any] = project.json("label", "--experiment", experiment)
        assert (asked["drawn"], len(asked["cases"])) == ("random", 40)
        assert all(case["scores"] == {} for case in asked["cases"])
        labels = [
            {
                "rollout_id": case["rollout_id"],
                "value": after if "screen" in case["output"] else 0.0,
                "drawn": "random",
            }
            for case in asked["cases"]
        ]
        file = tmp_path / "labels.jsonl"
        file.write_text("\n".join(map(json.dumps, labels)))
        assert project.ratchet("label", "--import", str(file)).returncode == 0
        decided: dict[str, Any] = project.json("improve")
        assert decided["verdict"] == verdict
        assert decided["stage"] == ("shipped" if verdict == "promote" else "no_gain")
        assert project.ratchet("verify", decided["evidence"]).returncode == 0
        assert project.ratchet("label", "--experiment", experiment).returncode == 2
        # Each distinct answer was judged once, in all stages and commands together.
        assert simulator.counters("", "simulated-judge")["calls"] <= 2 * 120
