"""Structured answers: what was meant is read, what is cut or says two things is not."""

# ruff: noqa: RUF001
from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.llm import lenient_json
from ratchet.llm.structured import AnswerSchema, values_in

SHAPE = AnswerSchema(
    {
        "type": "object",
        "properties": {"advice": {"type": "string"}, "edits": {"type": "array"}},
        "required": ["advice"],
    }
)

READ = {
    "plain": '{"advice": "x"}',
    "blanks": '\ufeff\n  {"advice": "x"}  \n',
    "fence": '```json\n{"advice": "x"}\n```',
    "fence without a word": '```\n{"advice": "x"}\n```',
    "fence that is not closed": '```json\n{"advice": "x"}',
    "prose around": 'Sure! Here it is: {"advice": "x"} I hope that helps.',
    "prose and a fence": 'Use {this}.\n```json\n{"advice": "x"}\n```\nDone {ok}.',
    "several objects": '{"advice": "draft"} and, better: {"advice": "x"}',
    "an example first": 'Like {"tip": 1}: {"advice": "x"}',
    "trailing comma": '{"advice": "x",}',
    "trailing commas": '{"advice": "x", "edits": [1, 2,],}',
    "single quotes": "{'advice': 'x'}",
    "python": "{'advice': 'x', 'edits': [True, None]}",
    "typographic quotes": "{“advice”: “x”}",
    "german quotes": "{„advice“: „x“}",
    "french quotes": "{«advice»: «x»}",
    "japanese quotes": "{「advice」：「x」}",
    "comments": '{"advice": "x" // short\n}',
    "bare names": '{advice: "x"}',
    "wrapped": '{"answer": {"advice": "x"}}',
    "a list of one": '[{"advice": "x"}]',
    "a text of JSON": '"{\\"advice\\": \\"x\\"}"',
    "thoughts before": '<think>{"advice": "no"}</think>{"advice": "x"}',
}


@pytest.mark.parametrize("text", READ.values(), ids=READ)
def test_what_was_meant_is_read(text: str) -> None:
    data, problem = SHAPE.read(text)
    assert problem == ""
    assert data["advice"] == "x"


KEPT = {
    "a line break": ('{"advice": "one\ntwo"}', "one\ntwo"),
    "quotes within": ('{"advice": "say "hi" twice"}', 'say "hi" twice'),
    "an apostrophe": ("{'advice': 'it's here'}", "it's here"),
    "a regular expression": (r'{"advice": "match \d+"}', r"match \d+"),
    "a fence within": ('{"advice": "use ```x``` here"}', "use ```x``` here"),
    "braces within": ('{"advice": "fill {name} and {}"}', "fill {name} and {}"),
    "a surrogate pair": (r'{"advice": "\ud83d\ude00"}', "😀"),
    "half a pair": (r"{'advice': '\ud83d'}", "\ufffd"),
}


@pytest.mark.parametrize(("text", "advice"), KEPT.values(), ids=KEPT)
def test_what_stands_in_texts_is_kept(text: str, advice: str) -> None:
    data, problem = SHAPE.read(text)
    assert problem == ""
    assert data["advice"] == advice


WRONG = {
    "nothing": ("", "contains no JSON"),
    "prose": ("State the rule.", "contains no JSON"),
    "cut": ('{"advice": "state the', "contains no JSON"),
    "cut in a fence": ('```json\n{"advice": "state', "contains no JSON"),
    "cut behind a value": ('{"advice": "x", "edits": [1, 2', "contains no JSON"),
    "a missing key": ('{"edits": []}', "'advice' is a required property"),
    "another type": ('{"advice": 3}', "advice: 3 is not of type 'string'"),
    "not a number": ('{"advice": NaN}', "contains no JSON"),
    "a number of many digits": ('{"advice": ' + "9" * 5000 + "}", "contains no JSON"),
    "deep": ('{"advice": ' + "[" * 100_000, "contains no JSON"),
}


@pytest.mark.parametrize(("text", "problem"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said(text: str, problem: str) -> None:
    data, said = SHAPE.read(text)
    assert data is None
    assert problem in said


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), json_values, min_size=1))
def test_every_json_object_is_read_as_it_is(value: dict[str, Any]) -> None:
    assert list(values_in(json.dumps(value))) == [value]
    assert list(values_in(json.dumps(value, indent=2, ensure_ascii=False))) == [value]


@given(st.text(alphabet="{}[]\":,'“”«» \n\\ua1-.eE/*`｛", max_size=200))
def test_no_text_breaks_it(text: str) -> None:
    data, problem = SHAPE.read(text)
    assert (data is None) == bool(problem)
    try:
        lenient_json.read_lenient_json(text)
    except lenient_json.NotJSON:
        pass


@pytest.mark.parametrize("piece", ["{", "[", '{"a":', "[[1,", '{"a" ', "{'a': 'b' ", "//", "```\n"])
def test_hostile_text_takes_no_time(piece: str) -> None:
    began = time.process_time()
    SHAPE.read(piece * 100_000)
    assert time.process_time() - began < 5


def test_a_schema_that_may_be_held_to_the_letter_is_told_apart() -> None:
    closed = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert AnswerSchema(closed).is_strict
    assert not AnswerSchema({**closed, "required": []}).is_strict
    assert not AnswerSchema({**closed, "additionalProperties": True}).is_strict
    nested = {**closed, "properties": {"a": {"type": "array", "items": {"type": "object"}}}}
    assert not AnswerSchema(nested).is_strict
