"""Problems over HTTP: the list, one with its traces, and what people decide."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any

from ratchet.autopilot.problem_scan import COACH_READER, scan
from ratchet.autopilot.problem_work import begin_work
from ratchet.store import Store
from ratchet.store.problems import ScanPlace
from ratchet.types import Feedback, TraceReading
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


def test_the_list_says_how_many_failing_traces_are_in_no_problem_and_how_many_a_coach_can_read(
    store_url: str, serving: Callable[..., RunningServer]
) -> None:
    now = time.time()
    with Store.open(store_url) as store:
        complain(store, range(1, 5), "bot", now - 60)
        # Its error is alone, but its complaint is not.
        complain(store, [5], "bot", now - 60, error="no room")
        record(store, 6, "q", agent="bot", error="no order 6", at=now - 60)
        record(store, 7, "q", agent="bot", at=now - 60)
        record(store, 8, "q", agent="other", error="no key", at=now - 60)
        asyncio.run(scan(store, now=now))
    with serving(store_url).client() as http:
        for query, counts in (
            ("", (7, 2, 5)),
            ("?agent=bot", (6, 1, 5)),
            ("?agent=other", (1, 1, 0)),
        ):
            listed: Any = http.get(f"/v1/problems{query}").json()
            assert (listed["failing"], listed["in_no_problem"], listed["unread"]) == counts


def test_a_problem_is_shown_with_what_a_coach_read_and_how_many_traces_it_can_still_read(
    store_url: str, serving: Callable[..., RunningServer]
) -> None:
    now = time.time()
    mistake = "It promises refunds that no tool can make."
    with Store.open(store_url) as store:
        complain(store, range(1, 9), "bot", now - 60)
        asyncio.run(scan(store, now=now))
        (problem,) = store.problems.list()
        read = store.problems.occurrences(problem.id)[:4]
        reading = TraceReading(
            wrong="It promised a refund.",
            mistake=mistake,
            model="m",
            cost_usd=0.001,
        )
        store.problems.read(
            {each.id: reading for each in read}, COACH_READER, ScanPlace(at=now + 1)
        )
        asyncio.run(scan(store, now=now + 2))
    with serving(store_url).client() as http:
        listed: Any = http.get("/v1/problems").json()
        by_title = {each["problem"]["title"]: each["problem"]["id"] for each in listed["problems"]}
        refunds: Any = http.get(f"/v1/problems/{by_title[mistake]}").json()
        assert [each["reading"]["wrong"] for each in refunds["occurrences"]] == [reading.wrong] * 4
        assert refunds["unread"] == 0
        late: Any = http.get(f"/v1/problems/{by_title['Users complain: late']}").json()
        assert [each["reading"] for each in late["occurrences"]] == [None] * 4
        assert (late["unread"], listed["unread"]) == (4, 4)


def test_a_problem_says_whether_the_run_that_learns_on_it_is_at_work(
    store_url: str, serving: Callable[..., RunningServer]
) -> None:
    now = time.time()
    with Store.open(store_url) as store:
        complain(store, range(1, 5), "bot", now - 60)
        asyncio.run(scan(store, now=now))
        (problem,) = store.problems.list()
        begin_work(store, problem, "run", now)
    with serving(store_url).client() as http, Store.open(store_url) as store:
        url = f"/v1/problems/{problem.id}"
        assert http.get(url).json()["is_at_work"] is False
        store.activity.put("run", [], time.time())
        assert http.get(url).json()["is_at_work"] is True


def complain(
    store: Store, numbers: Iterable[int], agent: str, at: float, *, error: str = ""
) -> None:
    """Store traces of an agent whose users say that it was late."""
    for number in numbers:
        start = at + number / 100
        trace_id = record(store, number, "When?", "Soon.", agent=agent, error=error, at=start)
        complaint = Feedback(
            id=f"f{number}", kind="thumbs", value=0.0, trace_id=trace_id, comment="late"
        )
        store.feedback.add([complaint], at)
