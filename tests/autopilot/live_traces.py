"""Live traces for tests: recorded as an agent under `ratchet.init` records them."""

from __future__ import annotations

import json
from typing import Any

from ratchet.store import Store
from ratchet.types import Span, SpanRecord
from ratchet.types.trace import CALL_START

START_S = 1_700_000_000


def record(
    store: Store,
    number: int,
    question: Any = "?",
    answer: Any = "!",
    *,
    agent: str = "bot",
    error: str = "",
    at: float | None = None,
    around: bool = False,
    took_s: float = 0.5,
    **attributes: Any,
) -> str:
    """Store a live trace of one call; return its id. Call `number` begins after so many seconds.

    With `around`, the root is a step without input and output around the call.
    """
    trace_id = f"{number:032x}"
    start_ns = int((START_S + number if at is None else at) * 1e9)
    call = Span(
        trace_id=trace_id,
        span_id=f"{number:016x}",
        parent_id="a" * 16 if around else None,
        name="answer",
        start_ns=start_ns,
        end_ns=start_ns + int(took_s * 1e9),
        status="error" if error else "unset",
        message=error,
        attributes={
            "gen_ai.operation.name": "invoke_agent",
            "ratchet.input": json.dumps({"question": question}),
            **({} if error else {"ratchet.output": json.dumps(answer)}),
            **attributes,
        },
    )
    spans = [call]
    if around:
        step = Span(
            trace_id=trace_id,
            span_id="a" * 16,
            name="request",
            start_ns=start_ns - 1_000,
            end_ns=start_ns + int(took_s * 1e9) + 1_000,
        )
        spans.append(step)
    store.spans.put([SpanRecord(span=span, agent=agent) for span in spans])
    return trace_id


def begin(store: Store, number: int, *, agent: str = "bot", **attributes: Any) -> str:
    """Store the start of the call that `record` stores with this number; return its trace's id."""
    trace_id = f"{number:032x}"
    start_ns = int((START_S + number) * 1e9)
    start = Span(
        trace_id=trace_id,
        span_id=f"{number + 2**32:016x}",
        parent_id=f"{number:016x}",
        name=CALL_START,
        start_ns=start_ns,
        end_ns=start_ns,
        attributes=attributes,
    )
    store.spans.put([SpanRecord(span=start, agent=agent)])
    return trace_id
