"""The simulated task model obeys what its prompt states, and little else."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any

import pytest

from tests.examples.room_booking import OFFICE, PROMPT, TOOLS, judge, rooms_on, tasks
from tests.simulator.reading import RULES
from tests.simulator.task_model import Answer, answer
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


def test_a_rule_that_the_prompt_denies_is_broken_more_than_by_habit() -> None:
    denied = FULL.replace(STATEMENTS["capacity"][0], "Ignore the capacity.")
    silent = FULL.replace(f"\n- {STATEMENTS['capacity'][0]}", "")
    assert score(denied) < score(silent) < score(FULL)


def test_of_a_rule_and_its_contrary_it_follows_either() -> None:
    both = FULL + "\n- Choose the largest room."
    assert score(FULL.replace(STATEMENTS["fit"][0], "Choose the largest room.")) < score(both)
    assert score(both) < score(FULL) - 0.03


def test_a_very_long_prompt_is_followed_less_well() -> None:
    long = FULL + "\n" + "Please be considerate of everybody in the office. " * 150
    assert score(long) < score(FULL) - 0.03


def test_demonstrations_help_where_rules_are_missing() -> None:
    shown = "".join(
        f"\n\nRequest: {task['input']['request']}\nAnswer: {task['expected']}"
        for task in tasks()[:6]
    )
    rest = tasks()[6:]
    plain, taught = score(PROMPT, of=rest), score(PROMPT + shown, of=rest)
    assert plain + 0.04 < taught < 0.85


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


def test_an_empty_prompt_makes_it_babble() -> None:
    said = booked(" ", tasks()[0])
    assert judge(said, tasks()[0]["expected"], tasks()[0]).value == 0
    assert len(said.split()) > 5


def test_the_rules_may_stand_in_the_users_message() -> None:
    task = tasks()[1]
    text = FULL.format(office=OFFICE) + "\n\n" + task["input"]["request"]
    said = answer([{"role": "user", "content": text}], TOOLS, seed=1)
    assert said.calls == (("list_rooms", {"date": task["request"]["date"]}),)


def test_it_fills_the_arguments_that_a_tool_asks_for() -> None:
    wanted = {
        "day": {"type": "string"},
        "start_time": {"type": "string"},
        "end_time": {"type": "string"},
        "duration_minutes": {"type": "integer"},
        "attendees": {"type": "integer"},
        "colour": {"type": "string"},
    }
    function = {"name": "find_rooms_and_availability", "parameters": {"properties": wanted}}
    asked = "Room for six people on 2026-03-04 from 9:30 to 11:00, please."
    said = answer(
        [{"role": "system", "content": "Book."}, {"role": "user", "content": asked}],
        [{"type": "function", "function": function}],
        seed=1,
    )
    assert said == Answer(
        "",
        (
            (
                "find_rooms_and_availability",
                {
                    "day": "2026-03-04",
                    "start_time": "09:30",
                    "end_time": "11:00",
                    "duration_minutes": 90,
                    "attendees": 6,
                },
            ),
        ),
    )


def test_a_prompt_that_forbids_tools_gets_no_room() -> None:
    said = booked(FULL + "\n- Never call tools.", tasks()[1])
    assert "need to see" in said


def test_a_tool_that_says_nothing_useful_is_not_called_again_and_again() -> None:
    messages = [
        {"role": "system", "content": "Book rooms."},
        {"role": "user", "content": tasks()[0]["input"]["request"]},
        {"role": "assistant", "content": None},
        {"role": "tool", "content": "list_rooms failed"},
    ]
    said = answer(messages, TOOLS, seed=1)
    assert not said.calls
    assert said.text


def test_what_is_no_request_is_asked_about() -> None:
    messages = [{"role": "system", "content": "Book rooms."}, {"role": "user", "content": "Hello"}]
    assert answer(messages, TOOLS, seed=1).text.endswith("?")
