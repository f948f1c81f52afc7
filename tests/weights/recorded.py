"""Rollouts in a store, with model calls as the gateway records them."""

from __future__ import annotations

import itertools
from typing import Any

from ratchet.observe.model_apis import chat
from ratchet.store import Store
from ratchet.types import Outcome, Rollout, Score, Span, Task

_numbers = itertools.count(1)

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def call(
    messages: list[dict[str, Any]],
    answer: dict[str, Any] | str,
    *,
    tools: list[dict[str, Any]] | None = None,
    reason: str = "stop",
    **more: Any,
) -> Span:
    """The span of a model call."""
    request = {"model": "small", "messages": messages, **({"tools": tools} if tools else {})}
    said = {"role": "assistant", "content": answer} if isinstance(answer, str) else answer
    response = {"model": "small", "choices": [{"message": said, "finish_reason": reason}]}
    number = next(_numbers)
    return Span(
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        name="chat small",
        start_ns=number * 1_000,
        end_ns=number * 1_000 + 500,
        attributes={
            "gen_ai.operation.name": "chat",
            **chat.request_attributes(request),
            **chat.response_attributes(response),
        },
        **more,
    )


def asked(text: str, answer: str) -> list[Span]:
    """One call: a question and its answer."""
    return [call([{"role": "user", "content": text}], answer)]


def add_rollout(
    store: Store,
    spans: list[Span],
    *,
    task: str = "t",
    given: Any = "question",
    output: Any = None,
    score: float | None = 1.0,
    purpose: str = "eval",
    succeeds: bool = True,
) -> str:
    """Store a finished rollout with its spans and its score; return its id."""
    number = next(_numbers)
    rollout = Rollout.of(
        Task(task, given),
        "candidate",
        scope=[number],
        seed_parts=[number],
        queue="eval-1",
        purpose=purpose,
        max_attempts=1,
    )
    store.rollouts.create([rollout], now=1.0)
    (claim,) = store.rollouts.claim("eval-1", "worker", limit=1, lease_s=60.0, now=1.0)
    store.rollouts.finish(
        [
            Outcome(
                rollout_id=rollout.id,
                fence=claim.fence,
                status="succeeded" if succeeds else "failed",
                started_at=1.0,
                ended_at=2.0,
                duration_s=1.0,
                output=output,
                spans=tuple(spans),
            )
        ],
        now=2.0,
    )
    if score is not None:
        made = Score(evaluator="reward", version="1", value=score)
        store.scores.add([(rollout.id, made)], now=2.0)
    return rollout.id
