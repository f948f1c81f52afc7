"""Problems over HTTP: the list, one with its traces, and what people decide."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from ratchet.autopilot.problem_scan import scan
from ratchet.store import Store
from tests.autopilot.live_traces import record
from tests.serving import RunningServer


def test_problems_are_listed_worst_first_and_people_decide_about_them(
    store_url: str, serving: Callable[..., RunningServer]
) -> None:
    now = time.time()
    with Store.open(store_url) as store:
        for number in range(1, 11):
            error = f"no order {number}" if number <= 3 else f"timeout after {number} s"
            record(store, number, "q", agent="bot", error=error if number < 9 else "", at=now - 60)
        asyncio.run(scan(store, now=now))
    with serving(store_url).client() as http:
        listed: Any = http.get("/v1/problems").json()
        assert (listed["traces"], listed["days"]) == (10, 14)
        assert listed["scanned_at"] > 0
        assert [each["traces"] for each in listed["problems"]] == [5, 3]
        assert [each["share"] for each in listed["problems"]] == [0.5, 0.3]
        assert http.get("/v1/problems?agent=other").json()["problems"] == []
        id = listed["problems"][1]["problem"]["id"]
        one: Any = http.get(f"/v1/problems/{id}").json()
        assert len(one["occurrences"]) == 3
        assert "fails: no order" in one["report"]["problem"]["title"]
        url = f"/v1/problems/{id}/state"
        refused = http.post(url, json={"state": "ignored", "by": "ann"})
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "reason")
        told = {"state": "ignored", "reason": "known", "by": "ann"}
        assert http.post(url, json=told).json()["state"] == "ignored"
        clash = http.post(url, json={"state": "fixed", "by": "ann"})
        assert clash.status_code == 409
        assert "can become open" in clash.json()["detail"]
        assert http.post(url, json={"state": "open", "by": "ann"}).json()["state"] == "open"
        again: Any = http.get(f"/v1/problems/{id}").json()
        assert [(each["target"], each["by"]) for each in again["transitions"]] == [
            ("ignored", "ann"),
            ("open", "ann"),
        ]
        assert http.get("/v1/problems/ffff").status_code == 404
