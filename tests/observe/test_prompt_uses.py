"""Who used which system prompt, read from recorded spans."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from ratchet.observe.prompt_uses import RecordedCalls
from ratchet.types import PromptUse, Span

OPERATION, AGENT = "gen_ai.operation.name", "gen_ai.agent.name"


def span(number: int, parent: int | None = None, trace: int = 1, **attributes: Any) -> Span:
    return Span(
        trace_id=f"{trace:032x}",
        span_id=f"{number:016x}",
        parent_id=None if parent is None else f"{parent:016x}",
        name=f"span {number}",
        start_ns=number,
        end_ns=number,
        attributes=attributes,
    )


def agent(number: int, name: str = "", parent: int | None = None, **more: Any) -> Span:
    named = {AGENT: name} if name else {}
    return span(number, parent, **{OPERATION: "invoke_agent", **named, **more})


def call(number: int, text: str, parent: int | None = None, **more: Any) -> Span:
    system = json.dumps([{"type": "text", "content": text}])
    said = {OPERATION: "chat", "gen_ai.system_instructions": system}
    return span(number, parent, **{**said, **more})


def uses(*spans: Span) -> list[PromptUse]:
    return RecordedCalls(spans).uses()


def test_the_nearest_agent_around_a_call_speaks() -> None:
    spans = [
        agent(1, "travel"),
        agent(2, "triage", 1),
        span(3, 2),
        call(4, "Delegate.", 3),
        span(5, 2, **{OPERATION: "execute_tool"}),
        agent(6, "seats", 5),
        call(7, "Book seats.", 6),
        call(8, "Sum up.", 1),
    ]
    expected = [
        PromptUse("Delegate.", "triage"),
        PromptUse("Book seats.", "seats"),
        PromptUse("Sum up.", "travel"),
    ]
    assert uses(*spans) == expected
    for seed in range(3):
        shuffled = random.Random(seed).sample(spans, len(spans))
        assert sorted(uses(*shuffled), key=repr) == sorted(expected, key=repr)


def test_the_agent_that_a_call_names_comes_before_those_around_it() -> None:
    (use,) = uses(agent(1, "around"), call(2, "Hello.", 1, **{AGENT: "own"}))
    assert use.speaker == "own"


@pytest.mark.parametrize(
    "spans",
    [
        [call(2, "Hello.")],
        [call(2, "Hello.", 77)],
        [agent(1, "elsewhere"), call(2, "Hello.", 1, trace=2)],
        [span(1, 2), call(2, "Hello.", 1)],
    ],
    ids=["no parent", "an unknown parent", "another trace", "a circle"],
)
def test_a_call_with_no_agent_around_it_has_no_speaker(spans: list[Span]) -> None:
    assert uses(*spans) == [PromptUse("Hello.")]


def test_the_tools_that_are_offered_are_named() -> None:
    listed = [
        {"type": "function", "name": "search"},
        {"type": "function", "function": {"name": "nested"}},
        {"type": "web_search"},
        {"name": 5},
        "no tool",
    ]
    for tools in (listed, json.dumps(listed)):
        (use,) = uses(call(1, "Hello.", **{"gen_ai.tool.definitions": tools}))
        assert use.tools == {"search", "nested", "web_search"}
    (use,) = uses(call(1, "Hello.", **{"gen_ai.tool.definitions": '[{"name": "cut'}))
    assert use.tools == frozenset()


def test_calls_with_one_prompt_are_counted() -> None:
    calls = RecordedCalls([call(1, "Hello."), call(2, "Hello."), span(3)])
    assert calls.uses() == [PromptUse("Hello.", count=2)]
    assert len(calls) == 2


@pytest.mark.parametrize(("said_in", "is_prompt"), [(1, False), (3, True)])
def test_an_answer_that_is_sent_again_as_a_system_message_is_no_prompt(
    said_in: int, is_prompt: bool
) -> None:
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": "At nine.\n"}]}]
    said = call(said_in, "Hello.", **{"gen_ai.output.messages": json.dumps(answer)})
    texts = {use.text for use in uses(call(2, "At nine."), said)}
    assert texts == {"Hello.", *["At nine."] * is_prompt}


def test_a_prompt_that_the_run_of_an_agent_repeats_is_counted_once() -> None:
    repeated = json.dumps([{"type": "text", "content": "Hello."}])
    run = agent(1, "kind", **{"gen_ai.system_instructions": repeated})
    assert uses(run, call(2, "Hello.", 1)) == [PromptUse("Hello.", "kind")]
    # Without content in its calls the run is all there is.
    assert uses(run, span(2, 1, **{OPERATION: "chat"})) == [PromptUse("Hello.", "kind")]
