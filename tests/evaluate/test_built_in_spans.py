"""What the evaluators of a rollout's spans say: tool_calls, trajectory, tokens, error_rate."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from ratchet.evaluate import FunctionEvaluator, error_rate, tokens, tool_calls, trajectory
from ratchet.types import InputError, Score, Span
from tests.evaluate.conftest import ended


def span(number: int, operation: str, parent: int | None = None, **fields: Any) -> Span:
    attributes = {"gen_ai.operation.name": operation, **fields.pop("attributes", {})}
    return Span(
        trace_id="t",
        span_id=str(number),
        parent_id=None if parent is None else str(parent),
        name=fields.pop("name", operation),
        start_ns=number,
        end_ns=number + 1,
        attributes=attributes,
        **fields,
    )


def tool(number: int, name: str, parent: int | None = 0, **arguments: Any) -> Span:
    attributes = {"gen_ai.tool.name": name, "gen_ai.tool.call.arguments": json.dumps(arguments)}
    return span(number, "execute_tool", parent, attributes=attributes)


ROOT = span(0, "invoke_agent")


def judged(
    evaluator: FunctionEvaluator, spans: Sequence[Span], expected: Any = None, **fields: Any
) -> Score:
    rollout = ended("done", expected, **fields)
    return asyncio.run(evaluator.score(rollout, lambda _: list(spans)))


BOOKED = [ROOT, tool(1, "search", city="Rome", nights=2), tool(2, "book", id=7, price=99.5)]
CALLS = [
    {"name": "search", "arguments": {"city": "Rome", "nights": 2}},
    {"name": "book", "arguments": {"id": 7, "price": 99.5}},
]


@pytest.mark.parametrize(
    ("expected", "options", "score", "why"),
    [
        (CALLS, {}, 1, "2 calls as expected"),
        (CALLS[::-1], {}, 1, ""),
        (["search", "book"], {}, 1, ""),
        (CALLS[:1], {}, 2 / 3, "not expected: book"),
        (CALLS[:1], {"extra": True}, 1, ""),
        ([*CALLS, "pay"], {}, 4 / 5, "missing: pay"),
        ([], {}, 0, "not expected: search"),
        ([{"name": "search", "arguments": {"city": "Rome", "nights": "2"}}, "book"], {}, 1 / 2,
         'nights: expected "2", got 2'),
        ([{"name": "search", "arguments": {"city": "Rome", "nights": True}}, "book"], {}, 0.5, ""),
        ([{"name": "search", "arguments": {"city": "Rome", "nights": 2.0}}, "book"], {}, 1, ""),
        ([{"name": "search", "arguments": {"city": "Rome"}}, "book"], {}, 1 / 2,
         "nights: expected nothing, got"),
        ([{"name": "search", "arguments": {"city": "Rome"}}, "book"], {"arguments": "subset"}, 1,
         ""),
        ([{"name": "search", "arguments": {"x": 1}}, "book"], {"arguments": "ignore"}, 1, ""),
        ([{"name": "book", "arguments": {"id": 7, "price": 100}}], {"tolerance": 0.5}, 2 / 3, ""),
        ([{"function": {"name": "search", "arguments": '{"city": "Rome", "nights": 2}'}}, "book"],
         {}, 1, ""),
    ],
)  # fmt: skip
def test_tool_calls(expected: Any, options: Any, score: float, why: str) -> None:
    got = judged(tool_calls(**options), BOOKED, expected)
    assert got.value == pytest.approx(score), got
    assert why in got.rationale


def test_a_number_as_text_is_another_argument() -> None:
    for given, wanted in (("1.5", 1.5), ("15", "1.5"), ("-5", "5"), (None, 0)):
        spans = [ROOT, tool(1, "f", x=given)]
        assert judged(tool_calls(), spans, [{"name": "f", "arguments": {"x": wanted}}]).value == 0


def test_expected_calls_may_be_in_the_metadata() -> None:
    got = judged(tool_calls(), BOOKED, "Booked!", metadata={"tool_calls": ["search", "book"]})
    assert got.value == 1
    assert "no expected tool calls" in judged(tool_calls(), BOOKED).error
    for wrong in ([3], "Booked!", [{"tool": "search"}]):
        assert "not a list of names or of objects" in judged(tool_calls(), BOOKED, wrong).error


def test_without_spans_there_is_no_score() -> None:
    for evaluator in (tool_calls(), trajectory(), tokens(), error_rate()):
        score = judged(evaluator, [], ["search"])
        assert score.value is None
        assert "no spans" in score.error


def test_a_call_that_two_instruments_record_counts_once() -> None:
    twice = [ROOT, tool(1, "search", city="Rome"), tool(2, "search", 1, city="Rome")]
    assert judged(tool_calls(), twice, ["search"]).value == 1
    again = [ROOT, tool(1, "search", city="Rome"), tool(2, "search", 0, city="Rome")]
    assert judged(tool_calls(), again, ["search"]).value == pytest.approx(2 / 3)


def test_calls_that_only_the_models_messages_hold_are_read_there() -> None:
    def said(*calls: tuple[str, str, Any]) -> dict[str, Any]:
        parts = [
            {"type": "tool_call", "id": id, "name": name, "arguments": arguments}
            for id, name, arguments in calls
        ]
        messages = [{"role": "assistant", "parts": parts}]
        return {"gen_ai.output.messages": json.dumps(messages)}

    spans = [
        ROOT,
        span(1, "chat", 0, attributes=said(("a", "search", {"city": "Rome", "nights": 2}))),
        span(2, "chat", 0, attributes=said(("b", "book", '{"id": 7, "price": 99.5}'))),
        span(3, "chat", 2, attributes=said(("b", "book", '{"id": 7, "price": 99.5}'))),
    ]
    assert judged(tool_calls(), spans, CALLS).value == 1


A, B, C = (tool(n, name) for n, name in enumerate("abc", start=1))


@pytest.mark.parametrize(
    ("spans", "expected", "verdicts"),
    [
        # strict, in_order, unordered, subset
        ([A, B], ["a", "b"], (1, 1, 1, 1)),
        ([A, B], ["b", "a"], (0, 0, 1, 1)),
        ([A, B, C], ["a", "c"], (0, 1, 0, 1)),
        ([A, B, C], ["c", "a"], (0, 0, 0, 1)),
        ([A], ["a", "b"], (0, 0, 0, 0)),
        ([A], ["a", "a"], (0, 0, 0, 0)),
        ([], [], (1, 1, 1, 1)),
        ([A], [], (0, 1, 0, 1)),
    ],
)
def test_trajectory_orders(spans: Any, expected: Any, verdicts: Any) -> None:
    for order, value in zip(("strict", "in_order", "unordered", "subset"), verdicts, strict=True):
        score = judged(trajectory(order=order), [ROOT, *spans], expected)  # type: ignore[arg-type]
        assert score.value == value, (order, score)


def test_trajectory_arguments_prohibitions_and_limits() -> None:
    assert judged(trajectory(arguments="exact"), BOOKED, CALLS).value == 1
    changed = [CALLS[0], {"name": "book", "arguments": {"id": 8, "price": 99.5}}]
    wrong = judged(trajectory(arguments="exact"), BOOKED, changed)
    assert wrong.value == 0
    assert "call 2 is book" in wrong.rationale
    assert judged(trajectory(forbidden=["book"]), BOOKED).rationale == "book is forbidden"
    assert judged(trajectory(forbidden=["pay"]), BOOKED, "Booked!").value == 1
    assert judged(trajectory(max_steps=1), BOOKED, ["search", "book"]).value == 0
    assert judged(trajectory(max_steps=2), BOOKED, ["search", "book"]).value == 1
    with pytest.raises(InputError, match="max_steps is -1"):
        trajectory(max_steps=-1)


def call(number: int, parent: int = 0, *, read: int | None = 100, wrote: int | None = 20) -> Span:
    usage = {"gen_ai.usage.input_tokens": read, "gen_ai.usage.output_tokens": wrote}
    return span(
        number, "chat", parent, attributes={k: v for k, v in usage.items() if v is not None}
    )
