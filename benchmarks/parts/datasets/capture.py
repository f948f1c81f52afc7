"""Measures capture over many spans: its time beside a plain read of them, and its memory."""

from __future__ import annotations

import json
import multiprocessing
import random
import resource
import tempfile
import time
from typing import Any

from benchmarks.parts.datasets.made_texts import original

from ratchet.curate import CaptureFilter, capture
from ratchet.store import Store
from ratchet.types import Dataset, Feedback, Span, SpanRecord
from ratchet.types.trace import TraceFilter

SPANS_PER_TRACE = 10
BAD = 0.002
"""Share of the traces with bad feedback, which are captured."""


def measure(quick: bool) -> dict[str, Any]:
    """See benchmarks/datasets.py for the keys."""
    spans = 20_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        small, large = (f"sqlite:///{folder}/{name}.db" for name in ("small", "large"))
        _fill(small, spans // 10)
        _fill(large, spans)
        _, little_mb, _ = _apart(_capture, small)
        read_s, _, read = _apart(_read, large)
        taken_s, peak_mb, tasks = _apart(_capture, large)
    assert read == spans, f"{read} spans were read of {spans}"
    return {
        "capture_ratio": round(taken_s / read_s, 3),
        "capture_peak_mb": round(peak_mb, 1),
        "capture_growth_mb": round(peak_mb - little_mb, 1),
        "capture_spans": spans,
        "capture_tasks": tasks,
        "capture_spans_per_s": round(spans / taken_s),
        "plain_read_spans_per_s": round(spans / read_s),
    }


def _apart(work: Any, url: str) -> tuple[float, float, int]:
    """Seconds, MB beyond the start, and a number: from a process of its own."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(work, url, sender))
    process.start()
    sender.close()
    found: tuple[float, float, int] = receiver.recv()
    process.join()
    return found


def _run(work: Any, url: str, sender: Any) -> None:
    with Store.open(url) as store:
        work(store, 1)  # imports and caches are no part of it
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begun = time.perf_counter()
        number = work(store, 0)
        seconds = time.perf_counter() - begun
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sender.send((seconds, (after - before) / 1024, number))


def _capture(store: Store, limit: int) -> int:
    found = capture(
        store,
        Dataset("d", (), {}),
        CaptureFilter(traces=TraceFilter(feedback=True), feedback="bad"),
        limit=limit or 10_000_000,
        fractions={"train": 0.4, "val": 0.2, "test": 0.4},
        now=1.0,
    )
    return len(found.tasks)


def _read(store: Store, limit: int) -> int:
    number, cursor = 0, None
    while True:
        page, cursor = store.spans.live("bot", limit or 1_000, cursor)
        number += len(page)
        if cursor is None or limit:
            return number


def _fill(url: str, spans: int) -> None:
    rng = random.Random(3)
    with Store.open(url) as store:
        for begin in range(0, spans // SPANS_PER_TRACE, 100):
            numbers = range(begin, min(begin + 100, spans // SPANS_PER_TRACE))
            records = [
                SpanRecord(span=span, agent="bot")
                for number in numbers
                for span in _trace(number, rng)
            ]
            store.spans.put(records)
            bad = [n for n in numbers if rng.random() < BAD]
            items = [
                Feedback(id=f"f{n}", kind="thumbs", value=0.0, trace_id=f"{n:032x}") for n in bad
            ]
            store.feedback.add(items, 1.0)


def _trace(number: int, rng: random.Random) -> list[Span]:
    """An agent's call with tools and model calls."""
    asked = f"{original(rng)} {number}"
    begun = 1_700_000_000_000_000_000 + number * 1_000_000_000
    trace = f"{number:032x}"
    spans = []
    for at in range(SPANS_PER_TRACE):
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.arguments": json.dumps({"query": asked[:40]}),
            "gen_ai.tool.call.result": json.dumps({"found": asked}),
        }
        if at == 0:
            attributes = {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "bot",
                "ratchet.input": json.dumps({"question": asked}),
                "ratchet.output": json.dumps("An answer."),
            }
        elif at % 3 == 1:
            attributes = {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "gpt-4o-mini",
                "gen_ai.usage.input_tokens": 120,
                "gen_ai.usage.output_tokens": 20,
                "gen_ai.input.messages": json.dumps(
                    [{"role": "user", "parts": [{"type": "text", "content": asked}]}]
                ),
            }
        spans.append(
            Span(
                trace_id=trace,
                span_id=f"{number * SPANS_PER_TRACE + at + 1:016x}",
                parent_id=None if at == 0 else f"{number * SPANS_PER_TRACE + 1:016x}",
                name="answer" if at == 0 else "step",
                start_ns=begun + at * 1_000_000,
                end_ns=begun + (at + 1) * 1_000_000,
                attributes=attributes,
            )
        )
    return spans
