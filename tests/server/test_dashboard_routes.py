"""Routes of the dashboard: runs, changes, skeletons, the overview, finding, rolling back."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ratchet._http import httpx2
from ratchet._waiting import LongWait
from ratchet.server.api import overview, runs
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from ratchet.types import (
    Activation,
    Candidate,
    Cycle,
    Feedback,
    Params,
    PromptTemplate,
    Rollout,
    Run,
    Score,
    Span,
    SpanRecord,
)
from ratchet.weights.metrics import append_metrics
from tests.serving import RunningServer
from tests.store.made import experiment, release
from tests.store.test_cycles import move

NOW = time.time()
RUN, EXPERIMENT, RELEASE, CYCLE = "ab" * 16, "cd" * 16, "ef" * 16, "12" * 16
SOURCE = Candidate.of({"system": PromptTemplate(text="Be brief."), "old": PromptTemplate(text="x")})
BETTER = Candidate.of(
    {"system": PromptTemplate(text="Be kind."), "knobs": Params({}, {})},
    parents=(SOURCE.id,),
    algorithm="apo",
)
IMPROVING = Run(
    id=RUN,
    agent="m:f",
    seed=0,
    stage="baseline",
    created_at=NOW,
    updated_at=NOW,
    baseline_id=SOURCE.id,
    best_id=BETTER.id,
)


def span(trace: str, number: int, parent: int | None = None, **more: Any) -> Span:
    """A span that began `number` seconds ago."""
    begun = int((NOW - number) * 1e9)
    fields = {"start_ns": begun, "end_ns": begun + 1_000, "name": f"step {number}", **more}
    parent_id = None if parent is None else f"{parent:016x}"
    return Span(trace_id=trace * 32, span_id=f"{number:016x}", parent_id=parent_id, **fields)


CALL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "gpt-4o-mini",
    "gen_ai.provider.name": "openai",
    "gen_ai.usage.input_tokens": 1_000,
    "gen_ai.usage.output_tokens": 100,
    "gen_ai.input.messages": "x" * 100_000,
}
SPANS = [
    span("a", 100, name="agent", attributes={"gen_ai.operation.name": "invoke_agent"}),
    span("a", 99, 100, attributes=CALL),
    span("a", 98, 100, status="error", message="m" * 2_000),
    span("b", 50, 49),  # a cycle
    span("b", 49, 50),
    span("c", 40, None, end_ns=int((NOW - 90) * 1e9)),  # its clock ran backwards
    span("d", 10 * 86_400),
    span(
        "f",
        20 * 86_400,
        attributes={
            "gen_ai.operation.name": "invoke_agent",
            "ratchet.input": '{"question": "Where?"}',
            "ratchet.output": '"Here."',
        },
    ),
]


def fill(store: Store) -> None:
    """One of each noun."""
    store.spans.put([SpanRecord(span=each, agent="support") for each in SPANS])
    store.spans.put([SpanRecord(span=span("e", 5), agent="coach")])
    store.feedback.add([Feedback(id="f", kind="thumbs", value=0.0, trace_id="a" * 32)], NOW)
    for candidate in (SOURCE, BETTER):
        store.candidates.put(candidate, NOW)
    store.runs.put(IMPROVING)
    proposal = {"number": 0, "value": 0.5, "tasks": 4, "best": 0.5, "rollouts": 4, "dollars": 0.1}
    notes = {
        "proposal/0": {**proposal, "candidate_id": BETTER.id, "accepted": "It leads."},
        "check/1": "It does not parse.",
        "check/2": "It does not parse.",
        "unusable/3": "The coach said nothing.",
        "trust": {"verdict": "decides", "sentence": "s", "evaluator": "exact"},
        "finding": {"best": BETTER.id, "baseline_val": 0.2, "best_val": 0.5, "val_tasks": 9},
    }
    for key, body in notes.items():
        store.journal.append(RUN, key, body, NOW)
    of_run = {"queue": RUN, "purpose": f"learn/{RUN}", "status": "succeeded"}
    rollouts: list[Any] = [
        {"id": f"{side}{n}", "candidate_id": candidate.id, "task_id": f"t{n}", "input": n, **of_run}
        for side, candidate in (("s", SOURCE), ("b", BETTER))
        for n in range(3)
    ]
    store.rollouts.create([Rollout(**fields) for fields in rollouts], NOW)
    values = {"s0": 0.0, "s1": 1.0, "b0": 1.0, "b1": 0.0, "b2": None}
    for id, value in values.items():
        error = "" if value is not None else "no"
        score = Score(evaluator="exact", version="1", value=value, error=error)
        store.scores.add([(id, score)], NOW)
    compared = {"baseline_id": SOURCE.id, "candidate_id": BETTER.id, "created_at": NOW}
    proof = experiment(EXPERIMENT, run_id=RUN, **compared)
    store.experiments.begin(proof, lambda _: 0.05)
    store.agents.activate(Activation(agent="support", candidate_id=BETTER.id, activated_at=NOW))
    compared["experiment_id"] = EXPERIMENT
    live = {"agent": "support", "state": "active", "repo": "", "branch": "", "base": ""}
    store.releases.put(release(RELEASE, **compared, **live))
    store.releases.put(release("99" * 16, **compared, repo="", agent=""))
    begun = Cycle(
        id=CYCLE,
        agent="support",
        state="capture",
        trigger="Feedback fell.",
        started_at=NOW,
        entered_at=NOW,
        updated_at=NOW,
    )
    states: list[Any] = ["idle", "capture", "learn", "approval"]
    for version, (before, after) in enumerate(itertools.pairwise(states), start=1):
        cycle = msgspec.structs.replace(begun, state=after, version=version)
        store.cycles.put(cycle, msgspec.structs.replace(move(cycle, before, version), at=NOW))


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """A client of a server on that store."""
    url = f"sqlite:///{tmp_path_factory.mktemp('routes')}/ratchet.db"
    with Store.open(url) as store:
        fill(store)
    server = RunningServer(url)
    with server.client() as client:
        yield client
    server.stop()


def test_a_run_has_its_candidates_refusals_and_figures(http: httpx2.Client) -> None:
    assert [run["id"] for run in http.get("/v1/runs").json()["runs"]] == [RUN]
    for id in (RUN, RUN[:8]):
        found = http.get(f"/v1/runs/{id}").json()
        (proposal,) = found["proposals"]
        assert (proposal["candidate_id"], proposal["verdict"]) == (BETTER.id, "It leads.")
        assert proposal["cost_usd"] == proposal["known_usd"] == 0.1
        assert [(each["reason"], each["count"]) for each in found["refusals"]] == [
            ("It does not parse.", 2),
            ("The coach said nothing.", 1),
        ]
        assert (found["baseline_val"], found["best_val"], found["metric"]) == (0.2, 0.5, "exact")


def test_two_candidates_are_compared_task_by_task(http: httpx2.Client) -> None:
    query = {"candidate": BETTER.id, "other": SOURCE.id}
    found = http.get(f"/v1/runs/{RUN}/tasks", params=query).json()
    assert found["evaluator"] == "exact"
    assert {each["task_id"]: (each["candidate"], each["other"]) for each in found["tasks"]} == {
        "t0": (1.0, 0.0),
        "t1": (0.0, 1.0),
        "t2": (None, None),
    }
    assert found["tasks"][0]["candidate_rollouts"] == ["b0"]


def test_the_front_of_a_run_has_the_source_first_and_says_how_it_is_measured(
    http: httpx2.Client,
) -> None:
    answer = http.get(f"/v1/runs/{RUN[:8]}/front").json()
    source, better = answer["front"]["places"]
    assert answer["front"]["source_id"] == source["candidate_id"] == SOURCE.id
    assert better["candidate_id"] == BETTER.id
    assert better["is_shipped"]
    assert answer["over"] in ("cost", "latency")
    assert "train and val tasks that the source ran" in answer["rule"]


def test_what_a_candidate_changed_is_told_by_resource(http: httpx2.Client) -> None:
    found = http.get(f"/v1/candidates/{BETTER.id}/changes").json()
    assert found["since"] == SOURCE.id
    assert {each["name"]: (each["before"], each["after"]) for each in found["changes"]} == {
        "system": ("Be brief.", "Be kind."),
        "old": ("x", None),
        "knobs": (None, ""),
    }
    path = f"/v1/candidates/{BETTER.id}/changes"
    assert http.get(path, params={"since": BETTER.id}).json()["changes"] == []
    assert http.get(path, params={"since": "0" * 32}).status_code == 404


def test_a_skeleton_leaves_attributes_out_and_a_span_has_them(http: httpx2.Client) -> None:
    answer = http.get(f"/v1/traces/{'a' * 32}/skeleton")
    assert len(answer.content) < 5_000
    found = answer.json()
    assert (found["total"], found["returned"]) == (3, 3)
    agent, call, failed = found["spans"]
    assert (agent["operation"], "status" in agent) == ("invoke_agent", False)
    assert (call["operation"], call["input_tokens"], call["model"]) == (
        "chat",
        1_000,
        "gpt-4o-mini",
    )
    assert call["cost_usd"] > 0
    assert "cost_usd" not in agent
    assert (failed["status"], len(failed["message"])) == ("error", 500)
    whole = http.get(f"/v1/traces/{'a' * 32}/spans/{99:016x}").json()
    assert len(whole["attributes"]["gen_ai.input.messages"]) == 100_000
    assert http.get(f"/v1/traces/{'a' * 32}/spans/none").status_code == 404
    some = http.get(f"/v1/traces/{'a' * 32}/skeleton?spans=2").json()
    assert (some["total"], some["returned"]) == (3, 2)


@pytest.mark.parametrize("trace", ["b", "c"])
def test_cycles_and_clocks_that_run_backwards_have_a_skeleton(
    http: httpx2.Client, trace: str
) -> None:
    found = http.get(f"/v1/traces/{trace * 32}/skeleton").json()
    assert found["returned"] == found["total"] > 0
    assert found["trace"]["duration_s"] >= 0


def test_the_overview_counts_traces_and_says_what_waits(http: httpx2.Client) -> None:
    found = http.get("/v1/overview?hours=1").json()
    (agent,) = found["agents"]  # not the coach
    assert (agent["name"], agent["traces"], agent["errors"]) == ("support", 3, 1)
    assert (agent["feedback"], agent["feedback_count"]) == (0.0, 1)
    assert agent["cost_usd"] > 0
    assert agent["active_candidate_id"] == BETTER.id
    assert sum(bucket["traces"] for bucket in agent["series"]) == 3
    assert [each["kind"] for each in found["waiting"]] == ["approval", "branch", "ending_model"]
    assert found["complete_until"] is None
    assert sum(day["known_usd"] for day in found["days"]) >= agent["known_usd"] > 0
    month = http.get("/v1/overview?hours=720").json()
    assert month["agents"][0]["traces"] == 5
    assert http.get("/v1/overview?hours=0").status_code == 422


def test_the_last_hour_reaches_back_a_whole_hour_when_a_new_one_has_just_begun(
    store: Store,
) -> None:
    fill(store)
    begun = (NOW // 3600 + 1) * 3600 + 1
    (agent,) = overview._overview(store, 1.0, begun).agents
    assert (agent.traces, [bucket.traces for bucket in agent.series]) == (3, [3, 0])


def test_a_run_that_waits_is_shown_with_what_it_waits_for(store: Store) -> None:
    store.candidates.put(SOURCE, NOW)
    store.runs.put(IMPROVING)
    assert overview._overview(store, 1.0, NOW).at_work == {}
    waits = [LongWait(what="the coach", since=NOW - 95)]
    store.activity.put(RUN, waits, time.time())
    assert overview._overview(store, 1.0, time.time()).at_work == {RUN: waits}
    shown = runs._detail(store, RUN)
    assert (shown.at_work, shown.waits) == (True, waits)


def test_a_run_that_a_later_one_left_behind_needs_nobody_any_more() -> None:
    failed = msgspec.structs.replace(IMPROVING, stage="failed", failed_at="learn")
    later = msgspec.structs.replace(IMPROVING, id="34" * 16, stage="shipped", updated_at=NOW + 1)
    other = msgspec.structs.replace(failed, id="56" * 16, agent="m:g")
    assert [each.id for each in overview._waiting([], [failed], [])] == [RUN]
    assert [each.id for each in overview._waiting([], [later, failed, other], [])] == [other.id]


def test_a_trace_becomes_a_task_once(http: httpx2.Client) -> None:
    path = "/v1/datasets/from-traces/traces"
    first = http.post(path, json={"traces": ["a" * 32]}).json()
    assert first["left_out"] == {"its input was recorded in part only": 1}
    assert (first["tasks"], first["version"]) == ([], "")
    second = http.post(path, json={"traces": ["f" * 32]}).json()
    assert (len(second["tasks"]), second["before"]) == (1, "")
    found = http.get(f"/v1/datasets/{second['version']}").json()
    (task,) = found["tasks"]
    assert task["input"] == "Where?"
    assert task["origin"]["sources"] == ["f" * 32]
    third = http.post(path, json={"traces": ["f" * 32]}).json()
    assert (third["tasks"], third["version"]) == ([], second["version"])
    assert http.post(path, json={"traces": ["0" * 32]}).status_code == 404
    assert http.post("/v1/datasets/a b/traces", json={"traces": ["f" * 32]}).status_code == 422


@pytest.mark.parametrize(
    ("prefix", "kind"),
    [
        (RUN[:6], "run"),
        (EXPERIMENT[:6], "experiment"),
        (RELEASE[:6], "release"),
        (CYCLE[:6], "cycle"),
        (BETTER.id[:6], "candidate"),
        ("a" * 6, "trace"),
    ],
)
def test_anything_is_found_by_the_first_digits_of_its_id(
    http: httpx2.Client, prefix: str, kind: str
) -> None:
    found = http.get("/v1/find", params={"q": prefix}).json()["found"]
    assert kind in [each["kind"] for each in found]


def test_an_experiment_without_a_decision_is_explained_and_has_no_evidence(
    http: httpx2.Client,
) -> None:
    sentences = http.get(f"/v1/experiments/{EXPERIMENT}/explanation").json()["sentences"]
    assert "There is no decision yet" in sentences[-1]
    assert "undecided" in http.get(f"/v1/experiments/{EXPERIMENT}/evidence").json()["detail"]


def test_a_release_at_run_time_is_rolled_back_once_with_its_reason(http: httpx2.Client) -> None:
    path = f"/v1/releases/{RELEASE}/rollback"
    assert http.post(path, json={"reason": ""}).status_code == 422
    undone = http.post(path, json={"reason": "Customers complain."}).json()
    assert undone["state"] == "rolled_back"
    newest = http.get("/v1/agents/support/history").json()["activations"][0]
    assert newest["candidate_id"] == ""
    assert "Customers complain." in newest["reason"]
    assert http.post(path, json={"reason": "Again."}).json() == undone


def test_a_release_in_a_repository_needs_a_server_in_its_project(http: httpx2.Client) -> None:
    refused = http.post(f"/v1/releases/{'99' * 16}/rollback", json={"reason": "No."})
    assert refused.status_code == 409
    assert "ratchet rollback 999999999999" in refused.json()["detail"]


def test_a_training_is_listed_with_the_last_value_of_each_metric_and_the_run_it_is_part_of(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/.ratchet/ratchet.db"
    folder = tmp_path / ".ratchet" / "training" / f"{RUN}-grpo"
    folder.mkdir(parents=True)
    append_metrics(folder, {"step": 0, "val": {"value": 0.2, "low": 0, "high": 1, "count": 9}})
    for step in range(1, 3_002):
        append_metrics(folder, {"step": step, "reward": step / 4_000, "loss": 0.1})
    append_metrics(folder, {"step": 3_001, "val": {"value": 0.4, "low": 0, "high": 1, "count": 9}})
    with Store.open(url) as store:
        store.runs.put(IMPROVING)
    server = RunningServer(url, ServeSettings(port=0, project=str(tmp_path)))
    try:
        with server.client() as http:
            (listed,) = http.get("/v1/training-runs").json()["runs"]
            curves = http.get(f"/v1/training-runs/{RUN}-grpo").json()
    finally:
        server.stop()
    assert (listed["steps"], listed["last"]) == (
        3_001,
        {"reward": 0.75025, "loss": 0.1, "val": 0.4},
    )
    assert (curves["run_id"], curves["steps"], curves["every"]) == (RUN, 3_001, 2)
    assert [s["step"] for s in curves["records"] if "val" in s["metrics"]] == [0, 3_001]


def test_an_empty_store_has_an_overview(tmp_path_factory: pytest.TempPathFactory) -> None:
    server = RunningServer(f"sqlite:///{tmp_path_factory.mktemp('empty')}/ratchet.db")
    try:
        with server.client() as http:
            found = http.get("/v1/overview").json()
            assert (found["agents"], found["waiting"], found["latest"]) == ([], [], [])
            assert http.get("/v1/training-runs").json() == {"runs": []}
    finally:
        server.stop()
