"""The whole loop without a person: a defect is found, learned away, proposed, merged and watched.

Then a bad release is forced, and the watch takes it back. In the short form the agent is a toy; in
the long form it is an example under traffic, whose server is killed now and then.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.autopilot.unattended import Site, active

from ratchet.types import Activation, Cycle, Params

pytestmark = pytest.mark.xdist_group("unattended")

TOY = '''
import ratchet

KNOBS = ratchet.params("guess", low=ratchet.Float(0.05, 0.0, 1.0))


@ratchet.agent
def answer(number):
    """The nearer the knob is to 0.7, the better the answer."""
    return max(0.0, 1.0 - abs(KNOBS.low - 0.7) - (number % 7) * 0.01)


@ratchet.evaluator
def closeness(output):
    return output
'''

TOY_SETTINGS = """
[[evaluators]]
use = "toy:closeness"
vouched = true

[run]
executor = "inline"

[improve]
algorithm = "tune"

[improve.budget]
rollouts = 400

[prove]
repetitions = 1

[[guardrails]]
metric = "latency"
off = true
"""


HELPER = Path(__file__).parents[2] / "examples" / "stdlib_helper"

KNOWN = '''
import json
from pathlib import Path

import ratchet

ANSWERS = {
    task["input"]: task["expected"]
    for task in map(json.loads, (Path(__file__).parent / "known.jsonl").open())
}


@ratchet.evaluator
def known_answer(output, input):
    """1 when an accepted answer is first, 1/2 when it is second, and so on."""
    question = input["question"] if isinstance(input, dict) else input
    places = [place for place, name in enumerate(output, 1) if name in ANSWERS[question]]
    return 1 / places[0] if places else 0.0
'''

HELPER_SETTINGS = """
[[evaluators]]
use = "known:known_answer"
vouched = true

[run]
executor = "process"
timeout_s = 60

[improve]
algorithm = "tune"

[improve.budget]
rollouts = 1500

[prove]
repetitions = 1

[[guardrails]]
metric = "latency"
off = true

[shadow]
max_pairs = 400
"""


def helper(folder: Path) -> None:
    """The example, with one of its knobs set badly."""
    shutil.copytree(HELPER / "stdlib_helper", folder / "stdlib_helper")
    scoring = folder / "stdlib_helper" / "scoring.py"
    text = scoring.read_text()
    good = "name_weight=ratchet.Float(1.0, "
    assert good in text
    scoring.write_text(text.replace(good, "name_weight=ratchet.Float(0.0, "))
    (folder / "known.py").write_text(KNOWN)
    shutil.copy(HELPER / "tasks.jsonl", folder / "known.jsonl")


def toy(folder: Path) -> None:
    (folder / "toy.py").write_text(TOY)


@pytest.fixture
def site(tmp_path: Path, postgres_url: str) -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(*args: Any, **options: Any) -> Site:
        made.append(Site(tmp_path / "site", postgres_url, *args, **options))
        return made[-1]

    yield make
    for each in made:
        each.stop()
        assert each.forge.violations == []


def force(site: Site, cycle: Cycle, values: dict[str, Any]) -> str:
    """Make knobs active that nobody proved; returns the candidate's id."""
    baseline = site.store.candidates.get(cycle.baseline_id)
    (name,) = [n for n, r in baseline.resources.items() if isinstance(r, Params)]
    knobs = baseline.resources[name]
    assert isinstance(knobs, Params)
    bad = baseline.derive({name: Params(knobs.space, {**knobs.values, **values})}, algorithm="hand")
    now = time.time()
    site.store.candidates.put(bad, now)
    site.store.agents.activate(
        Activation(agent=site.agent, candidate_id=bad.id, activated_at=now, reason="By hand.")
    )
    return bad.id


def watches(cycle: Cycle) -> bool:
    return cycle.state == "watch"


def seen(cycle: Cycle) -> int:
    """Live outcomes that the stage under way has seen."""
    return int(cycle.progress.get("taken", 0))


def check_the_loop(
    site: Site, bad: dict[str, Any], seconds: float, *, crashes: bool = False
) -> None:
    """A cycle proposes, the test merges; a bad release is forced, and a second cycle undoes it."""
    site.deploy()
    if crashes:
        for state in ("learn", "shadow", "pull_request"):
            site.wait_for(lambda cycle, at=state: at in site.path(cycle), seconds)  # type: ignore[misc]
            site.crash()
    proposed = site.wait_for(lambda cycle: bool(cycle.request), seconds)
    assert "The worst problem is" in proposed.trigger
    assert [decision.verdict for decision in proposed.decisions] == ["pass"]
    site.merge(proposed)
    site.deploy()
    watched = site.wait_for(lambda cycle: watches(cycle) and seen(cycle) >= 150, seconds)
    assert site.path(watched) == ["capture", "learn", "shadow", "pull_request", "watch"]
    forced = force(site, watched, bad)
    undone = site.wait_for(lambda cycle: cycle.state == "quarantined", seconds)
    assert (undone.candidate_id, active(site)) == (forced, "")
    assert site.path(undone) == ["watch", "rollback", "quarantined"]
    assert [decision.verdict for decision in undone.decisions] == ["alarm"]
    first = site.store.cycles.get(proposed.id)
    assert first is not None
    assert (first.state, first.id != undone.id) == ("done", True)
    assert len(site.forge.requests) == 1


def test_an_agent_is_improved_and_guarded_without_a_person(
    site: Callable[..., Site], tmp_path: Path
) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text("\n".join(json.dumps({"input": n}) for n in range(400)) + "\n")
    made = site(
        toy,
        entry="toy:answer",
        evaluator="closeness",
        settings=TOY_SETTINGS,
        questions=questions,
        tasks=150,
        pause_s=0.02,
    )
    check_the_loop(made, {"low": 0.0}, 120.0)


@pytest.mark.long
def test_an_example_under_traffic_is_improved_and_guarded_without_a_person(
    site: Callable[..., Site],
) -> None:
    made = site(
        helper,
        entry="stdlib_helper.agent:answer",
        evaluator="known_answer",
        settings=HELPER_SETTINGS,
        questions=HELPER / "tasks.jsonl",
        tasks=400,
        pause_s=0.02,
    )
    bad = {"name_weight": 0.0, "summary_weight": 0.0, "details_weight": 0.0}
    check_the_loop(made, bad, 300.0, crashes=True)
