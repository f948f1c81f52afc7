"""Resources, candidates, agents, datasets, spans, scores and feedback over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet.store import Store
from tests.server.api.conftest import ok
from tests.serving import RunningServer


def test_mirroring_that_is_switched_off_stays_off_until_it_is_named(http: Any) -> None:
    ok(http.put("/v1/agents/booker", json={"substitute": True, "mirror": 0.0}))
    assert ok(http.put("/v1/agents/booker", json={"substitute": False}))["mirror"] == 0.0
    assert (
        ok(http.put("/v1/agents/booker", json={"substitute": False, "mirror": None}))["mirror"]
        is None
    )
    ok(http.put("/v1/agents/booker", json={"substitute": False, "mirror": 2}), 422)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"splits": {"a": "train"}}, "splits"),
        ({"splits": {"a": "train", "b": "test", "c": "val"}}, "splits.c"),
        ({"tasks": [{"id": "a", "input": 1}] * 2, "splits": {"a": "train"}}, "tasks[1].id"),
    ],
)
def test_a_dataset_with_a_mistake_is_refused(http: Any, change: Any, field: str) -> None:
    tasks = [{"id": "a", "input": 1}, {"id": "b", "input": 2}]
    body = {"name": "rooms", "tasks": tasks, "splits": {"a": "train", "b": "test"}, **change}
    assert ok(http.post("/v1/datasets", json=body), 422)["errors"][0]["field"] == field


def test_spans_are_stored_before_they_are_acknowledged(http: Any, server: RunningServer) -> None:
    span = {
        "trace_id": "a" * 32,
        "span_id": "b" * 16,
        "name": "chat",
        "start_ns": 5,
        "end_ns": 6,
    }
    records = [{"span": span, "agent": "booker"}]
    assert ok(http.post("/v1/spans", json={"records": records}))["stored"] == 1
    with Store.open(server.store_url) as store:
        assert [s.name for s in store.spans.of_trace("a" * 32)] == ["chat"]
    assert len(ok(http.get("/v1/spans", params={"agent": "booker"}))["spans"]) == 1
    assert len(ok(http.get("/v1/spans", params={"trace_id": "a" * 32}))["spans"]) == 1
    ok(http.get("/v1/spans"), 422)
    wrong = [{"span": {**span, "trace_id": "A" * 32}}]
    problem = ok(http.post("/v1/spans", json={"records": wrong}), 422)
    assert problem["errors"][0]["field"] == "records[0].span.trace_id"


def test_labels_are_stored_listed_replaced_and_removed(http: Any) -> None:
    given = {"id": "l1", "rollout_id": "r", "value": 0.5, "labeller": "ana", "drawn": "random"}
    assert ok(http.post("/v1/labels", json={"labels": [given]})) == {"stored": 1}
    ok(http.post("/v1/labels", json={"labels": [{**given, "value": 1}]}))
    (found,) = ok(http.get("/v1/labels", params={"rollout_id": "r"}))["labels"]
    assert (found["value"], found["drawn"]) == (1, "random")
    assert ok(http.get("/v1/labels", params={"criterion": "tone"}))["labels"] == []
    assert ok(http.delete("/v1/labels/l1")) == {"removed": True}
    assert ok(http.delete("/v1/labels/l1")) == {"removed": False}
