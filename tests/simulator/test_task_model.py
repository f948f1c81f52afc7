"""The simulated task model obeys what its prompt states, and little else."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any

import pytest

from tests.examples.room_booking import OFFICE, PROMPT, TOOLS, judge, rooms_on, tasks
from tests.simulator.reading import RULES
from tests.simulator.task_model import answer
from tests.simulator.writing import STATEMENTS

FULL = PROMPT + "".join(f"\n- {STATEMENTS[rule][0]}" for rule in RULES)


def booked(prompt: str, task: dict[str, Any], seed: object = 1) -> str:
    """The model's answer to a task, once it has had its tool."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": prompt.format(office=OFFICE)},
        {"role": "user", "content": task["input"]["request"]},
    ]
    said = answer(messages, TOOLS, seed=seed)
    if said.calls:
        rooms = json.dumps({"rooms": rooms_on(said.calls[0][1]["date"])})
        messages += [{"role": "assistant", "content": None}, {"role": "tool", "content": rooms}]
        said = answer(messages, TOOLS, seed=seed)
    return said.text


def score(prompt: str, seed: object = 1, of: Sequence[dict[str, Any]] | None = None) -> float:
    """Mean score over the tasks."""
    chosen = tasks() if of is None else of
    return statistics.mean(
        judge(booked(prompt, task, seed), task["expected"], task).value for task in chosen
    )


def test_the_first_prompt_is_half_right_and_all_rules_together_nearly_always() -> None:
    for seed in range(2):
        assert 0.42 < score(PROMPT, seed) < 0.62
        assert score(FULL, seed) >= 0.95


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in ("near", "accessible")])
def test_every_rule_but_the_rarest_counts(rule: str) -> None:
    without = PROMPT + "".join(f"\n- {STATEMENTS[r][0]}" for r in RULES if r != rule)
    assert score(without) < score(FULL) - 0.005


def test_the_same_seed_and_content_give_the_same_answers() -> None:
    some = tasks()[:60]
    first, again = ([booked(PROMPT, task, seed) for task in some] for seed in (1, 1))
    other = [booked(PROMPT, task, 2) for task in some]
    assert first == again
    assert first != other


def test_without_noise_stated_rules_are_always_followed() -> None:
    messages: list[dict[str, Any]] = [{"role": "system", "content": FULL.format(office=OFFICE)}]
    for task in tasks():
        rooms = {"rooms": rooms_on(task["request"]["date"])}
        asked = [
            *messages,
            {"role": "user", "content": task["input"]["request"]},
            {"role": "assistant", "content": None},
            {"role": "tool", "content": json.dumps(rooms)},
        ]
        assert answer(asked, TOOLS, seed=1, noise=0).text == task["expected"], task
