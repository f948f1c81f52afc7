"""Evaluators proposed for a project, from its stored rollouts to lines in ratchet.toml."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet.autopilot import Project
from ratchet.autopilot.evaluator_generation import (
    Generated,
    generate_evaluators,
    known_rollouts,
    write_evaluators,
)
from ratchet.evaluate.generation import ProposedEvaluator
from ratchet.store import Store
from ratchet.types import ConfigError, Feedback, Label, Rollout

AGENT = "import ratchet\n\n\n@ratchet.agent\ndef bill(order):\n    return {}\n"

CONFIG = """
[agent]
entry = "billing:bill"

[[evaluators]]
use = "json_schema"
schema = { type = "object" }
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "billing.py").write_text(AGENT)
    (tmp_path / "ratchet.toml").write_text(CONFIG)
    lines = [json.dumps({"id": f"t{n}", "input": {"items": [n]}}) for n in range(60)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines) + "\n")
    return Project.find(tmp_path)


@pytest.fixture
def opened(project: Project, sqlite_url: str) -> Iterator[Store]:
    with Store.open(sqlite_url) as store:
        store.rollouts.create([rollout(n) for n in range(60)], 1.0)
        yield store


def rollout(number: int) -> Rollout:
    luck = random.Random(number)
    prices = [luck.randint(1, 900) for _ in range(luck.randint(1, 6))]
    right = number % 4 != 3
    output = {"sum": sum(prices) if right else sum(prices) + 5, "count": len(prices)}
    return Rollout(
        id=f"r{number}", queue="q", candidate_id="c", task_id=f"t{number}",
        input={"items": [{"price": price} for price in prices]}, output=output,
        status="succeeded", duration_s=0.2,
    )  # fmt: skip


def label_all(store: Store) -> None:
    labels = [
        Label(id=str(n), rollout_id=f"r{n}", value=float(n % 4 != 3), drawn="random")
        for n in range(60)
    ]
    store.labels.add(labels, 1.0)


def generated(project: Project, store: Store) -> dict[str, Generated]:
    rollouts = known_rollouts(project, store)
    agent = project.load_agent()
    found = asyncio.run(generate_evaluators(project, store, agent, rollouts))
    return {each.proposal.name: each for each in found}


@pytest.mark.long
def test_what_tells_good_outputs_from_bad_ones_is_found_and_measured(
    project: Project, opened: Store
) -> None:
    label_all(opened)
    found = generated(project, opened)
    total = found["sum_equals_sum_of_price"]
    assert total.kept
    assert total.card is not None
    kappa = next(check for check in total.card.checks if "kappa" in check.name)
    assert kappa.value == 1.0
    # All outputs have the same fields, so a schema tells nothing of what people said.
    assert found["fits_the_schema"].card is not None
    assert found["fits_the_schema"].card.verdict != "decides"


def test_no_output_of_a_test_task_is_read(project: Project, opened: Store) -> None:
    sealed = {task.id for task in project.dataset()[0].split("test")}
    assert sealed
    read = {each.task_id for each in known_rollouts(project, opened)}
    assert read == {f"t{n}" for n in range(60)} - sealed


@pytest.mark.long
def test_feedback_tells_good_from_bad_where_nobody_labelled(
    project: Project, opened: Store
) -> None:
    feedback = [
        Feedback(id=str(n), kind="thumbs", value=float(n % 4 != 3), rollout_id=f"r{n}")
        for n in range(60)
    ]
    opened.feedback.add(feedback, 1.0)
    assert "sum_equals_sum_of_price" in generated(project, opened)


def test_a_configuration_that_would_not_be_valid_is_left_as_it_is(project: Project) -> None:
    config = project.root / "ratchet.toml"
    config.write_text('evaluators = [{use = "cost"}]\n[agent]\nentry = "billing:bill"\n')
    before = config.read_text()
    one = ProposedEvaluator(
        name="n", why="", made_by="bounds", use="latency", options={"within": 1.0}
    )
    with pytest.raises(ConfigError, match="cannot be added"):
        write_evaluators(project.root, [one])
    assert config.read_text() == before
    assert {path.name for path in project.root.iterdir()} >= {"ratchet.toml"}
    assert not list(project.root.glob("*generated*"))
    assert not list(project.root.glob(".ratchet.toml*"))
