"""Damage makes right outputs wrong, harmless edits do not, and both say when nothing changed."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from ratchet.evaluate.corruptions import (
    DAMAGES,
    HARMLESS_EDITS,
    STEP_DAMAGES,
    Material,
    expected_output,
    is_right,
    made,
)
from ratchet.types import Span

PROSE = (
    "The parcel for Ada Fern weighs 12 kg. It was sent to Bremen on 2026-03-04."
    " The price is 1,250 EUR."
)
RECORD = {"customer": "Ada Fern", "total": 1250, "paid": True, "items": ["lamp", "rug"]}
OTHERS = ("The parcel for Bo Quill weighs 3 kg.", "Nothing was sent to Oslo.")


def damaged(name: str, output: Any, others: Any = OTHERS, seed: int = 1) -> Any:
    """The damaged output, or None."""
    changed = made(DAMAGES[name], Material(output, others), random.Random(seed))
    return changed.output if changed else None


@pytest.mark.parametrize("name", sorted(DAMAGES.keys() - {"broken JSON", "query"}))
def test_every_kind_changes_prose_that_it_applies_to(name: str) -> None:
    assert damaged(name, PROSE) != PROSE


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("numbers", "Nothing counts here."),
        ("units", 12),
        ("negation", "12"),
        ("dropped", "One sentence."),
        ("truncated", 12),
        ("empty", ""),
        ("entities", "nothing has a name"),
        ("reordered", {"a": 1}),
        ("stale date", "no day"),
        ("broken JSON", "prose"),
        ("query", "prose"),
        ("other answer", OTHERS[0]),
    ],
)
def test_what_leaves_the_output_as_it_is_is_no_damage(name: str, output: Any) -> None:
    others = () if name == "other answer" else OTHERS
    assert damaged(name, output, others) is None


def test_a_number_becomes_another_number() -> None:
    for seed in range(20):
        changed = damaged("numbers", "12 of 1,250", seed=seed)
        assert changed not in (None, "12 of 1,250")
        assert len(changed) == len("12 of 1,250")
    assert damaged("numbers", 7) != 7
    assert damaged("numbers", True) is None, "a truth value is no number"


def test_negations_flip_in_both_directions() -> None:
    assert damaged("negation", "It is open.") == "It is closed."
    assert damaged("negation", "It is not heavy.") == "It is heavy."
    assert damaged("negation", "It is heavy.") == "It is not heavy."
    assert damaged("negation", {"paid": True}) == {"paid": False}
    assert damaged("negation", "No.") == "Yes."


def test_json_stays_in_its_form_and_loses_one_field() -> None:
    as_data, as_text = damaged("dropped", RECORD), damaged("dropped", json.dumps(RECORD))
    assert len(as_data) == len(RECORD) - 1
    assert isinstance(as_text, str)
    assert len(json.loads(as_text)) == len(RECORD) - 1


def test_broken_json_is_refused_by_a_parser() -> None:
    for seed in range(10):
        with pytest.raises(json.JSONDecodeError):
            json.loads(damaged("broken JSON", RECORD, seed=seed))


def test_a_query_gets_a_mutant_of_one_operator() -> None:
    gold = "SELECT a FROM t WHERE b > 3 AND c = 1"
    mutants = {damaged("query", gold, seed=seed) for seed in range(30)}
    assert {"SELECT a FROM t WHERE b > 3 OR c = 1", "SELECT a FROM t WHERE b <= 3 AND c = 1"} < (
        mutants
    )


@pytest.mark.parametrize("name", sorted(HARMLESS_EDITS))
def test_harmless_edits_keep_what_an_output_says(name: str) -> None:
    for output in ("The total is 12500 EUR.", json.dumps(RECORD), RECORD):
        changed = made(HARMLESS_EDITS[name], Material(output), random.Random(1))
        if changed is None:
            continue
        if isinstance(output, str) and output[:1] != "{":
            assert changed.output.replace(",", "").split() == output.split()
        else:
            text = changed.output
            assert (json.loads(text) if isinstance(text, str) else text) == RECORD


@pytest.mark.parametrize(
    ("output", "expected", "right"),
    [
        ("42", 42, True),
        ("1,250", 1250, True),
        (" Lune ", "lune", True),
        ("The total is 42 EUR.", 42, None),
        ("The total is 42.00 EUR.", 42, None),
        ("It is 420.", 42, False),
        ("It was 2010.", 10, False),
        ("Oder", ["Lune", "Oder"], True),
        (["a", "b"], ["b"], False),
        (["b", "a"], ["b"], True),
        ({"total": 3, "note": "x"}, {"total": 3}, True),
        ('{"total": 4}', {"total": 3}, False),
        (True, 1, False),
        ("anything", None, None),
        ("", "Lune", False),
    ],
)
def test_the_oracle_says_what_the_expected_answer_tells(
    output: Any, expected: Any, right: bool | None
) -> None:
    assert is_right(output, expected) is right


def test_an_expected_answer_becomes_an_output_only_in_their_type() -> None:
    assert expected_output(42, ["The total is 3."]) == "42"
    assert expected_output(["Oder", "Lune"], ["Dart"]) == "Oder"
    assert expected_output({"total": 3}, ["prose"]) is None
    assert expected_output({"total": 3}, [{"total": 4}]) == {"total": 3}
    assert expected_output({"total": 3}, ['{"total": 4}']) == '{"total": 3}'


def test_steps_are_damaged_one_call_at_a_time() -> None:
    call = Span(
        trace_id="a" * 32,
        span_id="b" * 16,
        name="look",
        start_ns=0,
        end_ns=1,
        attributes={"gen_ai.tool.name": "look", "gen_ai.tool.call.arguments": '{"n": 1}'},
    )
    rng = random.Random(1)
    assert STEP_DAMAGES["wrong tool"]([call], rng)[0].attributes["gen_ai.tool.name"] != "look"
    (changed,) = STEP_DAMAGES["wrong argument"]([call], rng)
    assert json.loads(changed.attributes["gen_ai.tool.call.arguments"]) == {"n": 2}
    assert len(STEP_DAMAGES["extra call"]([call], rng)) == 2
    assert STEP_DAMAGES["missing call"]([call], rng) == []
    assert all(change([], rng) == [] for change in STEP_DAMAGES.values())
