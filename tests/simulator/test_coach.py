"""The simulated coach works with anybody's questions, and knows no more than it is shown."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from typing import Any

import pytest

from tests.simulator import asking, coach
from tests.simulator.evidence import advised_in, episodes, found_in
from tests.simulator.reading import read
from tests.simulator.shown import shown
from tests.simulator.writing import FOREIGN, HARMFUL, PLACEHOLDER, REFUSALS

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


@pytest.mark.parametrize("current", [PROMPT, LONGER])
@pytest.mark.parametrize("how", [*asking.CRITICS, *asking.WRITERS])
def test_it_finds_the_current_prompt_in_anybodys_question(how: str, current: str) -> None:
    ask = {**asking.CRITICS, **asking.WRITERS}[how]
    assert shown(ask(current, asking.TOO_SMALL), None).current.strip() == current


@pytest.mark.parametrize("how", asking.CRITICS)
def test_a_critique_names_the_rule_whose_absence_shows(how: str) -> None:
    messages = asking.CRITICS[how](PROMPT, asking.TOO_SMALL)
    critiques = [coach.answer(messages, None, seed=seed) for seed in SEEDS]
    named = Counter(rule for text in critiques for rule in advised_in(text))
    assert named["capacity"] > 40
    assert sum(named.values()) - named["capacity"] < 10  # mistakes and further readings
    assert all(text.startswith("Critique:") for text in critiques)


@pytest.mark.parametrize("how", asking.WRITERS)
def test_rewrites_come_in_the_form_asked_for_and_mostly_state_the_rule(how: str) -> None:
    messages = asking.WRITERS[how](LONGER, asking.TOO_SMALL)
    assert "capacity" not in read(LONGER).stated
    answers = [coach.answer(messages, None, seed=seed) for seed in SEEDS]
    prompts = [rewritten(how, LONGER, answer) for answer in answers]
    stated = sum("capacity" in read(prompt).stated for prompt in prompts)
    assert 30 < stated < 58
    assert len(set(prompts)) > 8
    if how in ("reflection", "evolution_rewrite"):
        assert sum("```" in answer for answer in answers) > 50
    if how == "evolution_diff":
        assert sum("<<<<<<< SEARCH" in answer for answer in answers) > 50


@pytest.mark.parametrize("how", asking.WRITERS)
def test_what_no_failure_shows_it_does_not_state(how: str) -> None:
    messages = asking.WRITERS[how](PROMPT, "The score is 0.2 and should be higher.")
    for seed in SEEDS:
        prompt = rewritten(how, PROMPT, coach.answer(messages, None, seed=seed))
        assert not read(prompt).stated, prompt


@pytest.mark.parametrize("how", asking.CRITICS)
def test_without_failures_a_critique_is_general(how: str) -> None:
    messages = asking.CRITICS[how](PROMPT, "It went well.")
    for seed in SEEDS:
        assert not advised_in(coach.answer(messages, None, seed=seed))


def test_a_trace_alone_shows_that_a_room_was_too_small() -> None:
    text = json.dumps(asking.conversation(PROMPT))
    assert [(r.people, chosen) for r, _, chosen in episodes(text.replace('\\"', '"'))] == [
        (10, "A101")
    ]
    assert found_in(text) == Counter(capacity=1)
    assert found_in(json.dumps([{"messages": text}])) == Counter(capacity=1)
    assert not found_in(json.dumps(asking.conversation(PROMPT, "B202")))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("capacity", "R1 only seats 4 people but 6 were coming"),
        ("capacity", "Not enough seats in R1."),
        ("equipment", "The room lacks a projector."),
        ("equipment", "R1 does not have a whiteboard"),
        ("accessible", "R1 is not wheelchair accessible."),
        ("available", "R1 is already taken at that time."),
        ("available", "The booking overlaps with another meeting."),
        ("buffer", "There is no buffer to the next meeting."),
        ("distance", "R1 is too far, 180 m away."),
        ("fit", "A smaller room was available."),
        ("near", "R2 is closer."),
        ("none", "No room fits, the expected answer was none."),
        ("format", "The answer could not be parsed."),
    ],
)
def test_failures_are_understood_in_different_words(rule: str, words: str) -> None:
    assert rule in found_in(f"Score 0.2. {words}")


def test_a_request_is_no_failure() -> None:
    text = (
        "We need a room for 10 people. It has to be reachable step-free. It should have a"
        " projector. It should be at most 120 m away. One of us uses a wheelchair."
    )
    assert not found_in(text)
    assert not advised_in(text)


def test_rewrites_are_sometimes_useless_or_harmful() -> None:
    messages = asking.edit(LONGER, asking.TOO_SMALL)
    kinds: Counter[str] = Counter()
    for seed in range(600):
        prompt = coach.answer(messages, None, seed=seed)
        kinds["refused"] += prompt in REFUSALS
        kinds["foreign"] += prompt in FOREIGN
        kinds["empty"] += not prompt
        kinds["no placeholder"] += bool(prompt) and not PLACEHOLDER.search(prompt)
        kinds["harmful"] += any(line in prompt for line in HARMFUL)
        kinds["dropped"] += not set(read(LONGER).stated) <= set(read(prompt).stated)
        kinds["twice as long"] += len(prompt) > 1.7 * len(LONGER)
        kinds["better"] += set(read(prompt).stated) > set(read(LONGER).stated)
    assert min(kinds.values()) >= 2, kinds
    assert 250 < kinds["better"] < 480, kinds


def test_rules_come_a_few_at_a_time_whatever_is_shown() -> None:
    failures = "\n".join(
        (
            "A1 is too small.",
            "B2 is already booked.",
            "C3 has no projector.",
            "D4 is too far away.",
            "A smaller room was free.",
            "No answer could be parsed.",
            "E5 is not accessible.",
        )
    )
    gained = [
        len(read(coach.answer(asking.tagged(PROMPT, failures), None, seed=seed)).stated)
        for seed in range(200)
    ]
    assert max(gained) <= 5
    assert 0.8 < sum(gained) / len(gained) < 2.5


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


def test_json_that_is_asked_for_in_words_is_given() -> None:
    messages = asking.tagged(LONGER, asking.TOO_SMALL)
    messages[0]["content"] += '\nRespond with a JSON object: {"reason": "...", "prompt": "..."}'
    answers = [coach.answer(messages, None, seed=seed) for seed in SEEDS]
    parsed = [json.loads(a) for a in answers if a.startswith("{") and a.endswith("}")]
    assert len(parsed) > 35
    assert all(set(answer) == {"reason", "prompt"} for answer in parsed)


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


@pytest.mark.parametrize("how", ["evolution_diff", "evolution_rewrite"])
def test_python_is_mutated_and_now_and_then_broken(how: str) -> None:
    messages = asking.WRITERS[how](FUNCTION.strip(), "The score is low.")
    programs = []
    for seed in range(150):
        answer = coach.answer(messages, None, seed=seed)
        programs.append(rewritten(how, FUNCTION.strip(), answer))
    parsing, same_signature = 0, 0
    for program in programs:
        try:
            tree = ast.parse(program)
        except SyntaxError:
            continue
        parsing += 1
        first = next((n for n in tree.body if isinstance(n, ast.FunctionDef)), None)
        arguments = [a.arg for a in first.args.args] if first else []
        same_signature += bool(first) and first.name == "rank" and arguments == ["items", "weight"]
    assert 135 < parsing < 150
    assert 130 < same_signature < parsing
    assert len(set(programs)) > 30


def test_only_the_marked_block_of_a_program_is_changed() -> None:
    program = f"LIMIT = 10\n\n# EVOLVE-BLOCK-START\n{FUNCTION}# EVOLVE-BLOCK-END\n\nTOTAL = 3 + 4"
    messages = asking.evolution_rewrite(program, "The score is low.")
    changed = 0
    for seed in range(60):
        answer = rewritten("evolution_rewrite", program, coach.answer(messages, None, seed=seed))
        changed += answer != program
        if "numpy_turbo" not in answer and "return result)" not in answer:
            assert answer.startswith("LIMIT = 10\n"), answer
            assert answer.endswith("TOTAL = 3 + 4"), answer
    assert changed > 50
