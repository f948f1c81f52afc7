"""Frameworks in the tests' own environment: the whole of an agent's run, stored by `init` alone.

The others need environments of their own: `make test-frameworks`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ratchet.types import Span
from tests.frameworks.model_simulator import ANSWERING, ASKING
from tests.frameworks.running import try_framework
from tests.frameworks.table import FRAMEWORKS, Framework
from tests.frameworks.tree import in_one_trace, look

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
