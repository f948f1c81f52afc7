"""Traces of judges' calls: stored under their own agent, redacted, with their cost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ratchet.evaluate import Scorer
from ratchet.evaluate.judges import JudgeEvaluator
from ratchet.store import Store
from ratchet.types import Rollout, Span
from ratchet.types.trace import TraceFilter
from tests.evaluate.conftest import ended
from tests.evaluate.judges.conftest import simulated
from tests.llm.endpoint import Endpoint, Reaction
from tests.simulator import SimulatorThread

ELM = "Does the answer name 'Elm'?"
KEY = "sk-proj-" + "Ab1" * 16


def scored(store: Store, judge: JudgeEvaluator, *rollouts: Rollout) -> None:
    store.rollouts.create(list(rollouts), 1.0)
    asyncio.run(Scorer(store, [judge]).score(rollouts))


def judged_spans(store: Store) -> list[Span]:
    traces, _ = store.traces.list(TraceFilter(agent="judge"))
    details = [store.traces.get(trace.trace_id) for trace in traces]
    return [span for detail in details if detail for span in detail.spans]


def names(spans: Sequence[Span]) -> list[str]:
    return sorted(span.name for span in spans)


def test_each_call_of_a_judge_is_a_trace_with_its_cost(
    simulator: SimulatorThread, sqlite_store: Store
) -> None:
    judge = simulated(simulator, criteria=[ELM])
    scored(sqlite_store, judge, ended("Elm", id="r1"), ended("Elm", id="r2"), ended("Oak", id="r3"))
    traces, _ = sqlite_store.traces.list(TraceFilter(agent="judge"))
    assert len(traces) == 2  # equal requests are made once
    assert {trace.name for trace in traces} == {"judge judge"}
    total = sum(trace.cost_usd or 0.0 for trace in traces)
    assert abs(total - judge.judge.spending.cost.known_usd) < 1e-12
    assert names(judged_spans(sqlite_store)) == [
        *["chat simulated-judge"] * 2,
        *["judge judge"] * 2,
    ]
    assert sqlite_store.rollouts.get(["r1"])["r1"].cost_usd == 0.0


def test_secrets_in_a_judges_traces_are_redacted(
    simulator: SimulatorThread, sqlite_store: Store
) -> None:
    judge = simulated(simulator, criteria=[f"Does the answer hold 'Elm' and not '{KEY}'?"])
    scored(sqlite_store, judge, ended(f"Elm, with {KEY}"))
    spans = judged_spans(sqlite_store)
    assert len(spans) == 2
    assert KEY not in str(spans)


def test_a_failed_call_leaves_a_trace_that_says_why(sqlite_store: Store) -> None:
    with Endpoint(lambda _: Reaction(status=401, body=b"{}")) as endpoint:
        from ratchet.evaluate import make_evaluator

        judge = make_evaluator(
            "judge", {"model": "m", "base_url": endpoint.url, "key_env": "", "criteria": [ELM]}
        )
        assert isinstance(judge, JudgeEvaluator)
        scored(sqlite_store, judge, ended("Elm"))
    (root,) = [span for span in judged_spans(sqlite_store) if span.parent_id is None]
    assert root.status == "error"
    assert "401" in root.message
