"""Where evaluators find the answer in what a model wrote."""

from __future__ import annotations

import importlib.util
import json
import unicodedata
from typing import Any

import pytest

from ratchet.evaluate import make_evaluator
from ratchet.llm.answer_text import code_blocks, json_in, without_reasoning
from ratchet.types import ConfigError
from tests.evaluate.conftest import ended, verdict

REASONING = "I might say 13, or no: I cannot help with that.\n```json\n[13]\n```\n"
DATA = {"a": 1}
JSON = json.dumps(DATA)
TICKS = "```"


def value(use: str, output: Any, expected: Any = None, **options: Any) -> float | None:
    metadata = options.pop("metadata", {})
    score = verdict(make_evaluator(use, options), ended(output, expected, metadata=metadata))
    return score.value


@pytest.mark.parametrize(
    "around",
    [
        "<think>{}</think>",
        "<think>\n{}\n</think>\n\n",
        "{}</think>",
        "<thinking>{}</thinking>",
        "<THINK>{}</THINK>",
        "<think>a</think> <think>{}</think>",
    ],
)
@pytest.mark.parametrize(
    ("use", "answer", "expected", "options"),
    [
        ("exact_match", "Rome", "Rome", {}),
        ("contains", "It is Rome.", "Rome", {}),
        ("regex", "Rome", "Rome", {"full": True}),
        ("numeric", "About 7.", 7, {}),
        ("json_match", JSON, DATA, {}),
        ("json_schema", JSON, None, {"schema": {"type": "object"}}),
        ("overlap", "a, b", ["a", "b"], {}),
        ("reciprocal_rank", "Rome", "Rome", {}),
        ("sql", "SELECT a FROM t", "SELECT a FROM t", {}),
        ("refusal", "It is Rome.", None, {}),
        ("length", "Rome", None, {"at_most": 1}),
        (
            "groundedness",
            "Rome lies on the river Tiber.",
            None,
            {"metadata": {"passages": ["Rome lies on the river Tiber."]}},
        ),
    ],
)
def test_reasoning_is_not_graded(
    around: str, use: str, answer: str, expected: Any, options: dict[str, Any]
) -> None:
    assert value(use, around.format(REASONING) + answer, expected, **options) == 1


def test_reasoning_that_was_cut_off_leaves_no_answer() -> None:
    assert value("contains", "<think>It may be Rome", "Rome") == 0
    assert value("contains", {"answer": "<think>Rome</think>Oslo"}, "Rome") == 0
    assert without_reasoning("Write <think> before you think.") == "Write <think> before you think."


@pytest.mark.parametrize("written", ["NFC", "NFD"])
@pytest.mark.parametrize(
    ("use", "output", "expected"),
    [
        ("exact_match", "Café", "Café"),
        ("contains", "Au café.", "Café"),
        ("regex", "Café", "^C.f[é]$"),
        ("json_match", {"café": "é"}, {"café": "é"}),
        ("overlap", ["é", "ü"], ["é", "ü"]),
        ("reciprocal_rank", ["é"], "é"),
    ],
)
def test_letters_are_the_same_however_they_are_composed(
    written: Any, use: str, output: Any, expected: Any
) -> None:
    def composed(data: Any, form: Any) -> Any:
        return json.loads(unicodedata.normalize(form, json.dumps(data, ensure_ascii=False)))

    other = "NFD" if written == "NFC" else "NFC"
    assert value(use, composed(output, written), composed(expected, other)) == 1


def test_data_is_searched_as_json() -> None:
    output = {"done": True, "none": None, "said": 'a "b"\né'}
    for expected in ('"done": true', '"none": null', 'a "b"', 'b"\né'):
        assert value("contains", output, expected) == 1
    assert value("contains", output, "'done'") == 0
    assert value("regex", output, r'"done": true') == 1
    assert value("regex", output, r"None|True") == 0


FENCED = [
    f"{TICKS}json\n{JSON}\n{TICKS}",
    f"~~~json\n{JSON}\n~~~",
    f'{TICKS}json title="a.json" {{1,2}}\n{JSON}\n{TICKS}',
    f"{TICKS}{{.json}}\n{JSON}\n{TICKS}",
    f"{TICKS}json {JSON}{TICKS}",
    f"It is {TICKS}{JSON}{TICKS}.",
    f"Here: {TICKS}json\n{JSON}\n{TICKS}",
    f"{TICKS}{JSON}\n{TICKS}",
    f"{JSON}\n{TICKS}",
    f"{JSON}{TICKS}",
    f"{JSON}\n{TICKS}\nThat is it.",
    f"{TICKS}json\n{JSON}\n{TICKS}\n{TICKS}",
    f"{TICKS}json\n{JSON}{TICKS}\nThat is it.",
    f"{TICKS}json\n{JSON}",
    f"1. {TICKS}json\n   {JSON}\n   {TICKS}",
    f"{TICKS}json\r\n{JSON}\r\n{TICKS}\r\n",
    f"{TICKS}\nno json\n{TICKS}\n{TICKS}json\n{JSON}\n{TICKS}\n`x`",
    f"{TICKS}json\n{JSON}\n{TICKS}\n{TICKS}text\n12 rows\n{TICKS}",
]


@pytest.mark.parametrize("text", FENCED)
def test_json_is_read_out_of_any_fence(text: str) -> None:
    assert json_in(text) == DATA
    assert value("json_match", text, DATA) == 1
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}
    assert value("json_schema", text, schema=schema) == 1


@pytest.mark.parametrize("indent", [None, 1])
def test_fences_within_texts_of_json_are_content(indent: int | None) -> None:
    data = {"code": f"{TICKS}py\nx = 1\n{TICKS}", "other": f"use {TICKS}x{TICKS}", "last": TICKS}
    text = json.dumps(data, indent=indent)
    assert json_in(text) == data
    assert json_in(f"Here:\n{TICKS}json\n{text}\n{TICKS}\nDone.") == data


@pytest.mark.parametrize(
    "part", [TICKS, "`", f"{TICKS}\n", f"{TICKS}json\n", "<think>", "</think>", "~~~ "]
)
def test_long_texts_are_read_in_linear_time(part: str) -> None:
    # Backtracking over so many characters would take longer than anybody waits.
    text = part * (200_000 // len(part)) + "x"
    code_blocks(without_reasoning(text))


@pytest.mark.parametrize("use", ["contains", "regex"])
@pytest.mark.parametrize("expected", ["", " \n", [""], ["", "x"], ["x", ""], [None], []])
def test_an_expectation_that_all_outputs_meet_is_an_error_that_names_the_task(
    use: str, expected: Any
) -> None:
    score = verdict(make_evaluator(use), ended("anything", expected, task_id="capital-7"))
    assert score.value is None
    assert "The task has" in score.error
    assert "(task capital-7)" in score.error


def test_a_pattern_of_the_project_is_not_empty() -> None:
    with pytest.raises(ConfigError, match="The pattern is empty"):
        make_evaluator("regex", {"pattern": ""})


@pytest.mark.parametrize("tests", ["", ["x == 1", "# nothing"]])
def test_a_test_of_code_that_does_nothing_is_an_error_that_names_the_task(tests: Any) -> None:
    score = verdict(make_evaluator("code_tests"), ended("x = 1", tests, task_id="double-3"))
    assert score.value is None
    assert "empty test, which any code would pass (task double-3)" in score.error


RIGHT = "def double(x):\n    return 2 * x"
LONG = "double(1)  # shows how it is called\n" * 20


@pytest.mark.parametrize(
    "output",
    [
        f"{TICKS}python\n{RIGHT}\n{TICKS}\nCalled:\n{TICKS}python\n{LONG}\n{TICKS}",
        f"{TICKS}python\n{RIGHT}\n{TICKS}\n{TICKS}text\n{LONG}\n{TICKS}",
        f"{TICKS}python\ndef double(x):\n    return x\n{TICKS}\nBetter:\n~~~py\n{RIGHT}\n~~~",
        f"<think>{TICKS}python\ndef double(x): pass\n{TICKS}</think>\n{RIGHT}",
        f"{RIGHT}\n{TICKS}\nThat is it.",
        f"- {TICKS}python\n  def double(x):\n      return 2 * x\n  {TICKS}",
    ],
)
@pytest.mark.parametrize(
    ("expected", "options"),
    [("assert double(2) == 4", {}), ([{"args": [2], "result": 4}], {"function": "double"})],
)
def test_code_is_the_last_block_that_defines_the_function(
    output: str, expected: Any, options: dict[str, Any]
) -> None:
    assert value("code_tests", output, expected, **options) == 1


SCHEMA = "CREATE TABLE orders (id INTEGER PRIMARY KEY, total REAL)"


@pytest.mark.parametrize(
    ("given", "expected", "score", "schema"),
    [
        ("SELECT id FROM main.orders", "SELECT id FROM orders", 1, SCHEMA),
        ("SELECT id FROM public.orders", "SELECT id FROM orders", 1, SCHEMA),
        ('SELECT o.id FROM "shop"."orders" o', "SELECT id FROM shop.orders", 1, SCHEMA),
        ("SELECT shop.orders.id FROM shop.orders", "SELECT id FROM orders", 1, SCHEMA),
        ("SELECT id FROM db.dbo.orders", "SELECT id FROM orders", 1, SCHEMA),
        ("SELECT id FROM orders", "SELECT id FROM orders", 1, SCHEMA.replace("orders", "a.orders")),
        ("SELECT id FROM hr.orders", "SELECT id FROM shop.orders", 0, SCHEMA),
        ("SELECT id FROM main.orders WHERE id > 2", "SELECT id FROM orders", 0, SCHEMA),
        (
            "WITH orders AS (SELECT 1 AS id) SELECT id FROM main.orders",
            "SELECT id FROM orders",
            1,
            SCHEMA,
        ),
    ],
)
def test_queries_may_name_the_schemas_of_tables(
    given: str, expected: str, score: float, schema: str
) -> None:
    assert value("sql", given, expected, schema=schema) == score


def test_the_query_of_a_text_is_its_last_block_that_begins_like_one() -> None:
    query, rows = "SELECT id FROM orders", "id\n--\n1"
    for text in (
        f"{TICKS}sql\n{query}\n{TICKS}\nIt gives\n{TICKS}\n{rows}\n{TICKS}",
        f"~~~sql\n{query}\n~~~",
        f"{TICKS}sql {query}{TICKS}",
        f"{query}\n{TICKS}\nThat is it.",
    ):
        assert value("sql", text, query, schema=SCHEMA) == 1
    assert (
        value("sql", f"{TICKS}\n{query}\n{TICKS}\n{TICKS}\nDELETE FROM orders\n{TICKS}", query) == 0
    )


@pytest.mark.skipif(
    importlib.util.find_spec("math_verify") is not None, reason="Math-Verify is installed"
)
def test_math_without_its_package_names_the_extra() -> None:
    with pytest.raises(ConfigError) as error:
        make_evaluator("math")
    assert "math-verify" in error.value.message
    assert "agent-ratchet[math]" in (error.value.hint or "")


def test_math_calls_equal_what_is_equal() -> None:
    pytest.importorskip("math_verify")
    assert value("math", r"So \boxed{\frac12}", "0.5") == 1
    assert value("math", r"$(3, 4)$", "(3,4)") == 1
    assert value("math", r"$(4, 3)$", "(3,4)") == 0
