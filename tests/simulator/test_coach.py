"""The simulated coach works with anybody's questions, and knows no more than it is shown."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest

from tests.simulator import asking, coach
from tests.simulator.evidence import advised_in
from tests.simulator.reading import read

PROMPT = "You are a booking assistant for {office}. Help people with meeting rooms."
LONGER = f"{PROMPT}\n- Answer with the room id only.\n- If no room qualifies, answer none."
SEEDS = range(60)


def applied(current: str, answer: str) -> str:
    """A text after the SEARCH/REPLACE blocks of an answer; a block that matches nothing is left."""
    blocks = re.findall(r"(?s)<<<<<<< SEARCH\n(.*?)\n=======\n(.*?)\n?>>>>>>> REPLACE", answer)
    for search, replace in blocks:
        current = current.replace(search, replace, 1)
    return current


def rewritten(how: str, current: str, answer: str) -> str:
    """The new prompt in an answer, taken out as its trainer would."""
    if how == "evolution_diff":
        return applied(current, answer)
    fence = re.search(r"(?s)```\w*\n(.*)\n```", answer)
    return fence[1] if fence else answer


@pytest.mark.parametrize("how", asking.CRITICS)
def test_a_critique_names_the_rule_whose_absence_shows(how: str) -> None:
    messages = asking.CRITICS[how](PROMPT, asking.TOO_SMALL)
    critiques = [coach.answer(messages, None, seed=seed) for seed in SEEDS]
    named = Counter(rule for text in critiques for rule in advised_in(text))
    assert named["capacity"] > 40
    assert sum(named.values()) - named["capacity"] < 10  # mistakes and further readings
    assert all(text.startswith("Critique:") for text in critiques)


@pytest.mark.parametrize("how", asking.WRITERS)
def test_what_no_failure_shows_it_does_not_state(how: str) -> None:
    messages = asking.WRITERS[how](PROMPT, "The score is 0.2 and should be higher.")
    for seed in SEEDS:
        prompt = rewritten(how, PROMPT, coach.answer(messages, None, seed=seed))
        assert not read(prompt).stated, prompt


def test_the_same_question_has_the_same_answer_unless_sampling_varies() -> None:
    messages = asking.edit(LONGER, asking.TOO_SMALL)
    first = coach.answer(messages, None, seed=1, turn=0)
    assert coach.answer(messages, None, seed=1, turn=0) == first
    assert len({coach.answer(messages, None, seed=1, turn=turn) for turn in range(8)}) > 3


def test_answers_fit_a_schema() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "analysis": {"type": "string"},
            "new_prompt": {"type": "string"},
            "confidence": {"type": "number"},
            "kind": {"enum": ["small", "large"]},
            "points": {"type": "array", "items": {"type": "string"}},
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"search": {"type": "string"}, "replace": {"type": "string"}},
                },
            },
        },
    }
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    understood = 0
    for seed in SEEDS:
        text = coach.answer(asking.tagged(LONGER, asking.TOO_SMALL), form, seed=seed)
        try:
            answer = json.loads(re.sub(r"^```json\n|\n```$", "", text))
        except ValueError:
            continue  # models do that now and then
        understood += "capacity" in read(answer["new_prompt"]).stated
        assert set(answer) == set(schema["properties"])
        assert answer["kind"] in ("small", "large")
        assert isinstance(answer["confidence"], float)
        assert set(answer["edits"][0]) == {"search", "replace"}
    assert understood > 25


FUNCTION = '''def rank(items, weight=0.5):
    """Order items."""
    scores = {}
    for item in items:
        score = item.value * weight + 2
        if score > 10:
            score = 10
        scores[item.name] = score
    return sorted(scores, key=scores.get)
'''
