"""Trying an evaluator on one stored output: a rollout, a live trace, and what has no answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ratchet.autopilot.evaluator_trial import try_evaluator
from ratchet.evaluate import Evaluator, evaluator
from ratchet.store import Store
from ratchet.types import InputError, Rollout, Score, Span, SpanRecord


@evaluator
def brief(output: str, spans: list[Span]) -> bool:
    return len(output) < 20 and len(spans) == 2


@pytest.fixture
def store(sqlite_url: str) -> Any:
    with Store.open(sqlite_url) as opened:
        yield opened


def put_trace(store: Store, trace: str, answer: str | None) -> None:
    def messages(role: str, text: str) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

    call = {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.input.messages": messages("user", "Where?"),
        **({} if answer is None else {"gen_ai.output.messages": messages("assistant", answer)}),
    }
    spans = [
        Span(
            trace_id=trace,
            span_id=f"{number:016x}",
            parent_id=None if number == 1 else f"{1:016x}",
            name="step",
            start_ns=10**18 + number,
            end_ns=10**18 + 100,
            attributes={} if number == 1 else call,
        )
        for number in (1, 2)
    ]
    store.spans.put([SpanRecord(span=span, agent="support") for span in spans])


def tried(store: Store, identity: str, by: Evaluator = brief) -> Score:
    return asyncio.run(try_evaluator(store, by, identity))[1]


def test_a_live_traces_recorded_answer_is_scored_with_its_spans(store: Store) -> None:
    put_trace(store, "ab" * 16, "Here.")
    put_trace(store, "cd" * 16, "x" * 30)
    assert tried(store, "abab").value == 1.0
    assert tried(store, "cdcd").value == 0.0


def test_a_rollout_in_which_the_agent_failed_has_the_score_that_learning_gives_it(
    store: Store,
) -> None:
    store.rollouts.create([Rollout(id="r1", queue="q", candidate_id="", task_id="t", input=1)], 1.0)
    with pytest.raises(InputError, match="has not ended"):
        tried(store, "r1")
    store.rollouts.cancel(["r1"], 2.0)
    assert "cancelled" in tried(store, "r1").error
    assert store.scores.of(["r1"])["r1"] == []
