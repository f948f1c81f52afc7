"""Costs that spans claim."""

from __future__ import annotations

import pytest

from tests.server.otlp.requests import JSON, PROTOBUF, encoded, rejected, request, span
from tests.serving import RunningServer

SPAN = {"trace_id": "1" * 32, "span_id": "2" * 16, "name": "chat", "start_ns": 1, "end_ns": 2}


@pytest.mark.parametrize("cost", [-1, -0.001, -1e300])
def test_a_span_that_costs_less_than_nothing_is_refused(server: RunningServer, cost: float) -> None:
    priced = {**SPAN, "attributes": {"ratchet.cost_usd": cost}}
    report = {"rollout_id": "r", "fence": 1, "status": "succeeded", "started_at": 1, "ended_at": 2}
    with server.client() as http:
        alone = http.post("/v1/spans", json={"records": [{"span": priced}]})
        outcome = {**report, "duration_s": 1, "spans": [priced]}
        reported = http.post("/v1/rollouts/finish", json={"outcomes": [outcome]})
        assert [alone.status_code, reported.status_code] == [422, 422]
        assert "ratchet.cost_usd" in alone.json()["errors"][0]["field"]
        for media_type in (PROTOBUF, JSON):
            body = encoded(request(span({"ratchet.cost_usd": float(cost)}), span()), media_type)
            answer = http.post("/v1/traces", content=body, headers={"content-type": media_type})
            assert rejected(answer.content, media_type)[0] == 1
