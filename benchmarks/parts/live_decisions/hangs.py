"""How often a canary passes a candidate some of whose calls never end.

The calls are stored as an agent leaves them and read by the reader of outcomes. What it makes of a
call that hangs goes into as many simulated canaries as there are runs; some are also decided from
stored calls to their end. The same canaries are decided with hanging calls left out.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ratchet.autopilot.live_outcomes import LiveOutcomes
from ratchet.evaluate import evaluator
from ratchet.prove import CanaryPlan, CanaryTest
from ratchet.store import Store
from ratchet.types import LiveOutcome, Span, SpanRecord
from ratchet.types.trace import ARM, CALL_START, EXPERIMENT, UNIT

from .stages import PASS, Canaries

BASE, HANGS = 0.9, 0.06
"""Share of right answers in both arms, and of the candidate's calls that hang: an effect of -0.054,
where -0.03 must not pass."""

BEGIN_S, APART_S, TOOK_S = 1_700_000_000, 0.5, 1.0


@evaluator
def right(output: str) -> float:
    """Whether the answer is right."""
    return float(output == "right")


def hanging(rng: np.random.Generator, runs: int, alpha: float, stored: int) -> dict[str, float]:
    """Shares of canaries that pass.

    Args:
        rng: The generator.
        runs: Simulated canaries.
        alpha: Their level.
        stored: Canaries of stored calls.
    """
    plan = CanaryPlan(alpha=alpha)
    ends = []
    counted = hung = 0
    worth = 0.0
    for _ in range(stored):
        test, seen, began = _decided(rng, plan)
        ends.append(test.verdict == "pass")
        hung += began
        counted += len(seen)
        worth += sum(seen)
    share, score = counted / hung, worth / counted if counted else 0.0
    test, left_out = Canaries(runs, plan), Canaries(runs, plan)
    for _ in range(plan.max_units):
        treated = rng.random(runs) < plan.share
        scores = (rng.random(runs) < BASE).astype(float)
        # One that is not counted is as if it were not there: another call takes its place.
        hangs = treated & (rng.random(runs) < HANGS * share)
        test.add(np.where(hangs, score, scores), treated)
        left_out.add(scores, treated)
    return {
        "passed": test.ends.share(PASS),
        "passed if left out": left_out.ends.share(PASS),
        "passed, stored": float(np.mean(ends)),
        "hanging calls that count": share,
    }


def _decided(rng: np.random.Generator, plan: CanaryPlan) -> tuple[CanaryTest, list[float], int]:
    """A canary of stored calls, the scores of those that hang, and how many such were read over."""
    test = CanaryTest.begin(plan)
    records: list[SpanRecord] = []
    hung: set[str] = set()
    for number in range(plan.max_units):
        treated = bool(rng.random() < plan.share)
        hangs = treated and bool(rng.random() < HANGS)
        records.append(_call(number, treated, hangs, bool(rng.random() < BASE)))
        if hangs:
            hung.add(_trace(number))
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(f"sqlite:///{Path(folder) / 'calls.db'}") as store,
    ):
        for start in range(0, len(records), 500):
            store.spans.put(records[start : start + 500])
        seen = list(_read(store))
    for outcome in seen:
        if test.verdict is None:
            test.add(outcome)
    scores = [float(each.score or 0.0) for each in seen if each.trace_id in hung]
    return test, scores, len(hung)


def _read(store: Store) -> Iterator[LiveOutcome]:
    """All outcomes, read once no call is waited for any longer."""
    reader = LiveOutcomes(store, "bot", right, wait_s=60.0)
    cursor: str | None = None
    while True:
        page = asyncio.run(
            reader.read(cursor, since=0.0, now=BEGIN_S + 100_000.0, experiment_id="e")
        )
        yield from page.outcomes
        cursor = page.cursor
        if not page.examined:
            return


def _call(number: int, treated: bool, hangs: bool, is_right: bool) -> SpanRecord:
    """What an agent leaves of one call: its span when it ended, else its start."""
    start_ns = int((BEGIN_S + APART_S * number) * 1e9)
    span_id = f"{number + 1:016x}"
    arm = {EXPERIMENT: "e", ARM: "candidate" if treated else "baseline", UNIT: f"unit {number}"}
    if hangs:
        span = Span(
            trace_id=_trace(number),
            span_id=f"{number + 2**40:016x}",
            parent_id=span_id,
            name=CALL_START,
            start_ns=start_ns,
            end_ns=start_ns,
            attributes=arm,
        )
    else:
        answer = '"right"' if is_right else '"wrong"'
        span = Span(
            trace_id=_trace(number),
            span_id=span_id,
            name="answer",
            start_ns=start_ns,
            end_ns=start_ns + int(TOOK_S * 1e9),
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "ratchet.input": '{"question": "?"}',
                "ratchet.output": answer,
                **arm,
            },
        )
    return SpanRecord(span=span, agent="bot")


def _trace(number: int) -> str:
    return f"{number + 1:032x}"
