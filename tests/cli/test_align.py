"""`ratchet align`: a judge is aligned with labels in the store, preferences with feedback."""

from __future__ import annotations

import json
import time
from typing import Any

from ratchet.store import Store
from ratchet.types import Feedback, Label, Rollout
from tests.cli.conftest import INLINE, MakeProject, Project
from tests.simulator import SimulatorThread

CONFIG = """
[agent]
entry = "agent:answer"

[[evaluators]]
use = "judge"
name = "helpful"
criteria = ["Does the answer name 'Elm'?"]
model = "simulated-judge-untaught"
base_url = "{url}"
key_env = ""

[[evaluators]]
use = "preference"
name = "polite"
file = "judges/polite.json"
"""


def store_of(project: Project) -> Store:
    return Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db")


def answered(id: str, input: Any, output: str) -> Rollout:
    return Rollout(
        id=id, queue="q", candidate_id="c", task_id=id, input=input, output=output,
        status="succeeded",
    )  # fmt: skip


def label_rooms(project: Project) -> None:
    """Forty outputs, of which people call those right that name Elm."""
    outputs = {f"r{k}": "Elm" if k % 2 else "Oak" for k in range(40)}
    with store_of(project) as store:
        store.rollouts.create([answered(k, k, v) for k, v in outputs.items()], time.time())
        store.labels.add(
            [
                Label(id=k, rollout_id=k, value=float(v == "Elm"), labeller="ana")
                for k, v in outputs.items()
            ],
            time.time(),
        )


def test_a_judge_is_aligned_with_labels_and_then_used_with_its_alignment(
    make_project: MakeProject,
) -> None:
    with SimulatorThread() as simulator:
        config = CONFIG.format(url=simulator.url) + INLINE
        project = make_project(config=config, tasks=10)
        missing = project.ratchet("align", "helpful")
        assert missing.returncode == 2
        assert "0 labelled cases are too few to align 'helpful'" in missing.stderr
        assert "no judge 'latency'" in project.ratchet("align", "latency").stderr
        label_rooms(project)
        shown = project.ratchet("align", "helpful")
        assert shown.returncode == 0, shown.stderr
        assert "on held-out labels" in shown.stdout
        found: dict[str, Any] = project.json("align", "helpful")
        assert found["before"]["kappa"]["value"] == 0.0
        assert found["after"]["kappa"]["value"] == 1.0
        aligned = config.replace('key_env = ""', 'key_env = ""\nalignment = "judges/helpful.json"')
        project.write("ratchet.toml", aligned)
        project.write("agent.py", "import ratchet\n\n\ndef answer(number):\n    return 'Oak'\n")
        done = project.ratchet("eval", "--limit", "1", "--json")
        assert "The judge 'helpful' made 1 call" in done.stderr
        scored: dict[str, Any] = json.loads(done.stdout)
        (candidate,) = scored["candidates"]
        means = {each["evaluator"]: each["mean"] for each in candidate["evaluators"]}
        assert means["helpful"] < 0.2


def test_preferences_are_learned_from_corrections_and_doubted_when_few(
    make_project: MakeProject,
) -> None:
    project = make_project(config=CONFIG.format(url="http://127.0.0.1:9/v1") + INLINE, tasks=10)
    nothing = project.ratchet("align", "polite")
    assert nothing.returncode == 2
    assert "no preferences or corrections" in nothing.stderr
    with store_of(project) as store:
        outputs = {f"r{k}": f"Look it up, {k}." for k in range(12)}
        store.rollouts.create([answered(k, k, v) for k, v in outputs.items()], time.time())
        given = [
            Feedback(id=k, kind="correction", rollout_id=k, content=f"Gladly: it is {k}.")
            for k in outputs
        ]
        store.feedback.add(given, time.time())
    found: dict[str, Any] = project.json("align", "polite")
    assert found["pairs"] == 12
    assert found["accuracy"]["value"] == 1.0
    assert found["doubt"] == "12 pairs are too few to trust; it needs 38 more."
    assert "it needs 38 more" in project.ratchet("align", "polite").stdout


def test_rewording_needs_a_coach(make_project: MakeProject) -> None:
    with SimulatorThread() as simulator:
        project = make_project(config=CONFIG.format(url=simulator.url) + INLINE, tasks=10)
        label_rooms(project)
        refused = project.ratchet("align", "helpful", "--reword")
    assert refused.returncode == 8
    assert "needs a coach LLM" in refused.stderr
