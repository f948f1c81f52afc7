"""Attribution: which resource a failure belongs to, as the trace and the words about it tell."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ratchet.learn.attribution import blame, step_of, uses
from ratchet.types import Code, Int, Model, Params, PromptTemplate, Resource, Span, SpanEvent

PLAN = PromptTemplate("You plan the work of a team. Write down the steps for {goal}.")
ANSWER = PromptTemplate("You answer what the user asks, in two sentences, with {style}.")
RANK = Code("def rank(items):\n    return sorted(items)\n", "rank")
RESOURCES: dict[str, Resource] = {
    "plan": PLAN,
    "answer": ANSWER,
    "rank": RANK,
    "search": Params({"k": Int(3, 1, 9)}),
    "writer": Model("big-model"),
}


def span(number: int, name: str = "chat", *, parent: int | None = 0, **fields: Any) -> Span:
    attributes = fields.pop("attributes", {})
    return Span(
        trace_id="a" * 32,
        span_id=f"{number:016x}",
        parent_id=None if parent is None else f"{parent:016x}",
        name=name,
        start_ns=number * 10,
        end_ns=number * 10 + 5,
        attributes=attributes,
        **fields,
    )


def chat(number: int, *texts: str, system: str = "", model: str = "m", **fields: Any) -> Span:
    messages = [{"role": "user", "parts": [{"type": "text", "content": t}]} for t in texts]
    attributes: dict[str, Any] = {
        "gen_ai.request.model": model,
        "gen_ai.input.messages": json.dumps(messages),
    }
    if system:
        part = {"type": "text", "content": system}
        attributes["gen_ai.system_instructions"] = json.dumps([part])
    return span(number, attributes=attributes, **fields)


def root(**fields: Any) -> Span:
    return span(0, "agent", parent=None, **fields)


def top(shares: dict[str, float]) -> str:
    assert sum(shares.values()) == pytest.approx(1.0)
    return max(shares, key=lambda name: shares[name])


def test_prompts_are_found_in_messages_and_instructions() -> None:
    spans = [
        root(),
        chat(1, system=PLAN.format(goal="a party")),
        chat(2, "Hello. " + ANSWER.format(style="irony") + " And more.", model="x"),
    ]
    shown = uses(RESOURCES, spans)
    assert shown["plan"].spans == (f"{1:016x}",)
    assert shown["answer"].spans == (f"{2:016x}",)
    assert not shown["writer"].used
    assert not shown["search"].used
    assert not shown["search"].traceable


def test_a_call_is_a_step_of_its_own_beside_others_and_where_the_input_is_not_sent() -> None:
    template = PromptTemplate("You summarise bills.")
    call = chat(1, "Bill 12: breakfast for schools", system=template.text)
    other = chat(2, "Is that right?", system="You check summaries of bills.")

    def step(task_input: str, *calls: Span) -> Span | None:
        return step_of("system", template, [root(), *calls], task_input)

    assert step("Bill 12: breakfast for schools", call) is None
    assert step("bills/12.pdf", call) is call
    assert step("Bill 12: breakfast for schools", call, other) is call
    assert step("bills/12.pdf", other) is None


def test_the_gateways_mark_and_a_models_name_count() -> None:
    marked = span(1, attributes={"ratchet.prompt.name": '["plan", "other"]'})
    called = chat(2, "Hi", model="big-model")
    shown = uses(RESOURCES, [root(), marked, called])
    assert shown["plan"].used
    assert shown["writer"].used
    assert not shown["answer"].used


def test_a_function_is_found_by_its_span_or_its_frame() -> None:
    by_span = uses(RESOURCES, [root(), span(1, "rank")])
    assert by_span["rank"].used
    error = 'Traceback:\n  File "a.py", line 3, in rank\n    return 1 / 0\nZeroDivisionError'
    by_frame = uses(RESOURCES, [root()], error)
    assert by_frame["rank"].erred
    assert not by_frame["rank"].used
    event = SpanEvent("exception", 1, {"exception.stacktrace": error})
    assert uses(RESOURCES, [root(events=(event,))])["rank"].erred
    assert not uses(RESOURCES, [root()], "in ranking")["rank"].erred


def test_the_prompt_that_made_the_answer_is_to_blame_first() -> None:
    spans = [root(), chat(1, PLAN.format(goal="x")), chat(2, ANSWER.format(style="y"))]
    shares = blame({"plan": PLAN, "answer": ANSWER}, spans)
    assert top(shares) == "answer"
    assert shares["plan"] > 0.2


def test_a_failure_passes_upwards_and_blames_nobody_beside_it() -> None:
    spans = [
        root(status="error"),
        span(1, "write", status="error"),
        chat(2, ANSWER.format(style="y"), parent=1, status="error"),
        span(3, "prepare"),
        chat(4, PLAN.format(goal="x"), parent=3),
    ]
    assert top(blame({"plan": PLAN, "answer": ANSWER}, spans)) == "answer"


def test_a_rationale_that_names_a_resource_outweighs_the_rest() -> None:
    spans = [root(), chat(1, PLAN.format(goal="x")), chat(2, ANSWER.format(style="y"))]
    resources: dict[str, Resource] = {"plan": PLAN, "answer": ANSWER, "rank": RANK}
    assert top(blame(resources, spans, rationales=["the plan misses a step"])) == "plan"
    assert top(blame(resources, spans, rationales=["planning is fine"])) == "answer"
    shares = blame(resources, [*spans, span(3, "rank")], error="ValueError in rank")
    assert top(shares) == "rank"


def test_templates_with_logic_are_found_by_their_text() -> None:
    logic = PromptTemplate(
        "{% for rule in rules %}{{ rule }}{% endfor %} You are the keeper of the seventh gate.",
        "jinja2",
    )
    spans = [root(), chat(1, "one two You are the keeper of the seventh gate.")]
    assert uses({"gate": logic}, spans)["gate"].used


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.input.messages": "{not json"},
        {"gen_ai.input.messages": 7},
        {"gen_ai.input.messages": '[1, {"parts": [3]}, {"parts": "x"}]'},
        {"gen_ai.system_instructions": '{"a": 1}', "gen_ai.request.model": None},
        {"ratchet.prompt.name": 4},
        {"ratchet.prompt.name": "[broken"},
    ],
)
def test_foreign_data_that_is_malformed_is_passed_over(attributes: dict[str, Any]) -> None:
    spans = [root(), span(1, attributes=attributes), span(2, parent=2)]
    assert sum(blame(RESOURCES, spans).values()) == pytest.approx(1.0)
