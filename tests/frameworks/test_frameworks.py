"""Frameworks in the tests' own environment: the whole of an agent's run, stored by `init` alone.

The others need environments of their own: `make test-frameworks`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ratchet.types import Span
from tests.frameworks.matrix import markdown, write_into
from tests.frameworks.model_simulator import ANSWERING, ASKING
from tests.frameworks.running import Outcome, try_framework
from tests.frameworks.table import FRAMEWORKS, Framework
from tests.frameworks.tree import COLUMNS, in_one_trace, look

FAST = [each for each in FRAMEWORKS if each.fast]


@pytest.mark.parametrize("framework", FAST, ids=lambda each: each.name)
def test_a_run_is_captured_whole(framework: Framework) -> None:
    outcome = try_framework(framework, Path(sys.executable), both_orders=False)
    assert outcome.passed, outcome


def test_at_least_five_frameworks_are_tried_in_each_test_run() -> None:
    assert len([each for each in FAST if each.shown]) >= 5


def _span(number: int, operation: str, parent: int | None = None, **attributes: object) -> Span:
    return Span(
        trace_id="1" * 32,
        span_id=f"{number:016x}",
        parent_id=None if parent is None else f"{parent:016x}",
        name=operation,
        start_ns=number,
        end_ns=number,
        attributes={"gen_ai.operation.name": operation, **attributes},
    )


def _chat(number: int, sent: str, said: str, tokens: tuple[int, int]) -> Span:
    part = '[{"role":"%s","parts":[{"type":"text","content":"%s"}]}]'
    return _span(
        number,
        "chat",
        1,
        **{
            "gen_ai.request.model": "m",
            "gen_ai.input.messages": part % ("user", sent),
            "gen_ai.output.messages": part % ("assistant", said),
            "gen_ai.usage.input_tokens": tokens[0],
            "gen_ai.usage.output_tokens": tokens[1],
        },
    )


AGENT = _span(1, "invoke_agent", **{"gen_ai.agent.name": "assistant"})
FIRST = _chat(2, "What is the weather in Paris?", "get_weather", ASKING)
CALL = _span(
    3,
    "execute_tool",
    1,
    **{
        "gen_ai.tool.name": "get_weather",
        "gen_ai.tool.call.arguments": '{"city":"Paris"}',
        "gen_ai.tool.call.result": "18 C",
    },
)
LAST = _chat(4, "18 C", "It is 18 C", ANSWERING)
WHOLE = [AGENT, FIRST, CALL, LAST]
CALLS = [ASKING, ANSWERING]


def test_a_whole_run_lacks_nothing() -> None:
    assert not any(look(WHOLE, CALLS).values())
    assert in_one_trace(WHOLE)


@pytest.mark.parametrize(
    ("spans", "columns"),
    [
        ([], {*COLUMNS}),
        ([FIRST, CALL, LAST], {"agent"}),
        ([AGENT, CALL, LAST], {"LLM call", "tokens", "messages"}),
        ([*WHOLE, LAST], {"LLM call", "tokens"}),
        ([AGENT, FIRST, LAST], {"tool arguments", "tool result"}),
        ([*WHOLE, CALL], {"tool arguments", "tool result"}),
    ],
    ids=["nothing", "no agent", "no first call", "told twice", "no tool", "tool told twice"],
)
def test_what_is_missing_is_found(spans: list[Span], columns: set[str]) -> None:
    assert {column for column, what in look(spans, CALLS).items() if what} == columns


def test_spans_that_hang_loose_are_not_one_trace() -> None:
    assert not in_one_trace([*WHOLE, _span(9, "chat", 77)])


def test_the_matrix_says_what_is_missing_and_what_failed(tmp_path: Path) -> None:
    openai = next(each for each in FRAMEWORKS if each.name == "openai")
    crewai = next(each for each in FRAMEWORKS if each.name == "crewai")
    outcomes = [
        Outcome(openai, "3.54.0", 1.0, {"tokens": "too few"}),
        Outcome(crewai, "1.15", 1.0, {}, "exit 1"),
    ]
    lines = markdown(outcomes).splitlines()
    assert lines[2] == (
        "| OpenAI SDK | 3.54.0 | OpenInference | decorator | yes | yes | yes | no | decorator |"
        " decorator | yes |"
    )
    assert lines[3].count("failed") == len(COLUMNS) + 1
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- matrix -->\nof yesterday\n<!-- end of the matrix -->\nafter\n")
    write_into(page, outcomes)
    written = page.read_text()
    assert written.startswith("before\n<!-- matrix -->\n| framework")
    assert written.endswith("|\n<!-- end of the matrix -->\nafter\n")
    assert "yesterday" not in written
    page.write_text("no marks")
    with pytest.raises(ValueError, match="has no <!-- matrix -->"):
        write_into(page, outcomes)
