"""Outcomes as they are kept: one span model, and the price of each model call."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet.run.outcomes import normalised
from ratchet.types import Outcome, Span

COST = "ratchet.cost_usd"


def outcome(*attributes: dict[str, Any]) -> Outcome:
    spans = tuple(
        Span(
            trace_id="0" * 31 + "1",
            span_id=f"{number:016x}",
            parent_id=None,
            name="call",
            start_ns=1,
            end_ns=2,
            attributes=each,
        )
        for number, each in enumerate(attributes, 1)
    )
    return Outcome(
        rollout_id="r",
        fence=1,
        status="succeeded",
        started_at=1.0,
        ended_at=2.0,
        duration_s=1.0,
        spans=spans,
    )


CALL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.response.model": "gpt-4.1-mini",
    "gen_ai.usage.input_tokens": 1000,
    "gen_ai.usage.output_tokens": 100,
}
PRICE = 1000 * 0.4e-6 + 100 * 1.6e-6
"""Published: 0.4 and 1.6 dollars a million tokens."""


def test_a_library_that_has_names_of_its_own_is_translated_and_priced() -> None:
    own = {
        "openinference.span.kind": "LLM",
        "llm.system": "openai",
        "llm.model_name": "gpt-4.1-mini",
        "llm.token_count.prompt": 1000,
        "llm.token_count.completion": 100,
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Which room?",
    }
    kept = normalised(outcome(own))
    assert "Which room?" in kept.spans[0].attributes["gen_ai.input.messages"]
    assert kept.spans[0].attributes[COST] == pytest.approx(PRICE)


def test_each_call_is_priced_and_twice_is_as_good_as_once() -> None:
    kept = normalised(outcome(CALL, CALL))
    assert [span.attributes[COST] for span in kept.spans] == [pytest.approx(PRICE)] * 2
    assert normalised(kept) == kept


def test_dollars_in_spans_are_left_for_the_store_to_count() -> None:
    assert normalised(outcome({**CALL, COST: 0.5}, CALL)).cost_usd == 0.0


@pytest.mark.parametrize(
    "odd",
    [
        {"gen_ai.response.model": "nobody's model"},
        {"gen_ai.response.model": 5},
        {"gen_ai.usage.input_tokens": "many", "gen_ai.usage.output_tokens": None},
        {"gen_ai.usage.input_tokens": float("nan"), "gen_ai.usage.output_tokens": -3},
    ],
)
def test_a_call_that_cannot_be_priced_gets_no_price(odd: dict[str, Any]) -> None:
    assert COST not in normalised(outcome({**CALL, **odd})).spans[0].attributes
