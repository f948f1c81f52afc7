"""Before learning, people are told how many tasks a proof takes and how to get them."""

from __future__ import annotations

from typing import Any

from ratchet.autopilot.proof_outlook import proof_outlook
from ratchet.store import Store
from ratchet.types import Dataset, Span, SpanRecord, Split, Task

NOW = 1_772_000_000.0
SCORES = [0.0, 1.0] * 20


def dataset(test: int, *, unanswered: int = 0) -> Dataset:
    splits: dict[str, Split] = {}
    tasks = []
    for n in range(2 * test):
        tasks.append(Task(f"t{n}", n, None if n < unanswered else "x"))
        splits[f"t{n}"] = "test" if n < test else "train"
    return Dataset("support", tuple(tasks), splits)


def said(store: Store, tasks: Dataset, **changes: Any) -> str:
    options: dict[str, Any] = {
        "answered": False,
        "alpha": 0.0146,
        "min_gain": 0.01,
        "repetitions": "auto",
        "stored": True,
        "store": store,
        "now": NOW,
    }
    return " ".join(proof_outlook(tasks, SCORES, **(options | changes)))


def record(store: Store, traces: int, agent: str = "support") -> None:
    spans = [
        Span(
            trace_id=f"{len(agent):04x}{n:028x}",
            span_id=f"{n + 1:016x}",
            name="answer",
            start_ns=int((NOW - 3_600 * (n + 1)) * 1e9),
            end_ns=int((NOW - 3_600 * n) * 1e9),
        )
        for n in range(traces)
    ]
    store.spans.put([SpanRecord(span=span, agent=agent) for span in spans])


def test_too_few_tasks_come_with_the_ways_to_more(store: Store) -> None:
    found = said(store, dataset(100))
    assert "but there are 100: only larger gains are likely to be proved." in found
    assert "(1) record real traffic (docs/tracing.md; the last week had none" in found
    assert "synthesized tasks help learning only" in found


def test_capture_is_dated_by_the_traffic_of_the_last_week(store: Store) -> None:
    record(store, 48)
    record(store, 96, agent="judge")  # no traffic of the agent
    found = said(store, dataset(100))
    assert (
        "capture tasks from traffic: at 7 traces a day there are enough in about 80 days" in found
    )
    assert "(ratchet datasets capture support)" in found
    assert "(ratchet datasets capture NAME)" in said(store, dataset(100), stored=False)


def test_open_test_tasks_are_the_soonest_way(store: Store) -> None:
    tasks = dataset(100, unanswered=30)
    assert "(1) 30 test tasks have no expected answer" in said(store, tasks)
    assert "and there are 70: only" in said(store, tasks, answered=True)
