"""Fills a store with live traces, rollouts with scores, and a run, by the store's own writers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import text

from ratchet.store import Store
from ratchet.types import Candidate, PromptTemplate, Rollout, Run, Score, Span, SpanRecord

SPANS = 10
"""Spans of a trace."""

EVERY = 25
"""Of so many traces one has failed."""

VOCABULARY = [f"{a}{b}{c}" for a in "bdfglmnprst" for b in "aeiou" for c in ("ren", "lo", "mis")]
"""Words of questions and answers."""

BATCH = 200
"""Traces, or rollouts, written at once."""

BIG = "b" * 32
"""The trace of 10,000 spans."""

RUN = "e" * 32
WEEK_S = 7 * 86_400


def seed(store: Store, traces: int, rollouts: int, now: float, note: Callable[[str], None]) -> None:
    """Write live traces that are spread over a week, rollouts of one run, and one large trace.

    Args:
        store: An empty store.
        traces: Live traces, of ten spans each.
        rollouts: Rollouts, with one score each.
        now: Unix seconds: the end of the week.
        note: Told of progress.
    """
    for first in range(0, traces, BATCH):
        numbers = range(first, min(first + BATCH, traces))
        store.spans.put(
            [
                SpanRecord(span=span, agent=f"agent-{number % 10}")
                for number in numbers
                for span in trace_of(number, now - WEEK_S * (traces - number) / traces)
            ]
        )
        if first % 20_000 == 0:
            note(f"{first} of {traces} traces")
    store.spans.put(
        [SpanRecord(span=span, agent="agent-0") for span in large_trace(BIG, 10_000, now - 60)]
    )
    _run(store, rollouts, now, note)


def trace_of(number: int, at: float) -> Iterator[Span]:
    """An everyday trace, which begins at that time; every 25th has a failed step."""
    begun, trace = int(at * 1e9), f"{number:032x}"
    failed = number % EVERY == 0
    drawn = random.Random(number)
    question = " ".join(["Question", str(number), *drawn.choices(VOCABULARY, k=30)])
    answer = " ".join(drawn.choices(VOCABULARY, k=60))
    call = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.provider.name": "openai",
        "gen_ai.usage.input_tokens": 800 + number % 400,
        "gen_ai.usage.output_tokens": 40 + number % 60,
        "gen_ai.conversation.id": f"talk-{number // 4}",
        "gen_ai.input.messages": json.dumps(
            [{"role": "user", "parts": [{"type": "text", "content": question}]}]
        ),
        "gen_ai.output.messages": json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": answer}]}]
        ),
    }
    for index in range(SPANS):
        attributes: dict[str, Any] = call if index in (1, 4) else {"step": index}
        if index == 0:
            attributes = {"user.id": f"user-{number % 997}"}
        yield Span(
            trace_id=trace,
            span_id=f"{number:010x}{index:06x}",
            parent_id=None if index == 0 else f"{number:010x}{0:06x}",
            name="invoke_agent" if index == 0 else f"step {index}",
            start_ns=begun + index * 10_000_000,
            end_ns=begun + (index + 1) * 12_000_000,
            status="error" if failed and index == 7 else "unset",
            message="The booking service timed out" if failed and index == 7 else "",
            attributes=attributes,
        )


def large_trace(id: str, spans: int, at: float) -> Iterator[Span]:
    """A trace of many spans, which begins at that time."""
    begun = int(at * 1e9)
    for index in range(spans):
        parent = None if index == 0 else index - 1 if index < 400 else index % 400
        yield Span(
            trace_id=id,
            span_id=f"{index + 1:016x}",
            parent_id=None if parent is None else f"{parent + 1:016x}",
            name=f"step {index}",
            start_ns=begun + index * 1_000_000,
            end_ns=begun + index * 1_000_000 + 50_000_000,
            attributes={"index": index},
        )


def _run(store: Store, rollouts: int, now: float, note: Callable[[str], None]) -> None:
    source = Candidate.of({"system": PromptTemplate(text="Answer.")})
    better = source.derive({"system": PromptTemplate(text="Answer well.")}, algorithm="apo")
    for candidate in (source, better):
        store.candidates.put(candidate, now)
    store.runs.put(
        Run(
            id=RUN,
            agent="module:answer",
            seed=0,
            stage="baseline",
            created_at=now,
            updated_at=now,
            baseline_id=source.id,
            best_id=better.id,
        )
    )
    for number in range(200):
        store.journal.append(
            RUN,
            f"proposal/{number}",
            {
                "number": number,
                "candidate_id": better.id if number == 199 else f"{number:032x}",
                "value": number / 200,
                "tasks": 50,
                "best": number / 200,
                "rollouts": 50 * number,
                "algorithm": "apo",
                "parents": [source.id],
            },
            now,
        )
    for first in range(0, rollouts, 10 * BATCH):
        numbers = range(first, min(first + 10 * BATCH, rollouts))
        # Of the newest run a thousand; the rest is of earlier ones.
        made = [
            Rollout(
                id=f"r{number}",
                queue=RUN if number < 1_000 else f"{number // 5_000:032x}",
                candidate_id=(source, better)[number % 2].id,
                task_id=f"task-{number // 2 % 500}",
                input={"question": number},
            )
            for number in numbers
        ]
        store.rollouts.create(made, now)
        scores = [(each.id, Score(evaluator="score", version="1", value=0.5)) for each in made]
        store.scores.add(scores, now)
        if first % 50_000 == 0:
            note(f"{first} of {rollouts} rollouts")
    # As after their runs; to run them all is another benchmark.
    done = text("UPDATE rollouts SET status = 'succeeded', started_at = created_at, duration_s = 1")
    store._database.write(lambda connection: connection.execute(done))
