"""`ratchet autopilot` and `ratchet explain`: what people tell, and what they are told."""

from __future__ import annotations

import time
import uuid
from typing import Any

import msgspec
import pytest

from ratchet.autopilot.cycle.explaining import explain_experiment, explain_stage
from ratchet.store import Store
from ratchet.types import (
    Cycle,
    CycleState,
    CycleTransition,
    Decision,
    Experiment,
    GuardrailResult,
    LabelledGain,
    Span,
    SpanRecord,
    StageDecision,
)
from tests.cli.conftest import CONFIG, INLINE, MakeProject, Project

POLICY = '[autopilot]\napproval = true\napprovers = ["ann"]\n'


def put(project: Project, state: CycleState = "approval", **fields: Any) -> Cycle:
    """Store a cycle that came to a state by the way of the table."""
    now = time.time()
    ways: dict[str, list[CycleState]] = {
        "approval": ["capture", "learn", "approval"],
        "capture": ["capture"],
        "dropped": ["capture", "dropped"],
    }
    cycle = Cycle(
        id="c1c2c3c4c5c6",
        agent="agent-answer",
        state="capture",
        trigger="30 of the 100 newest live traces are bad.",
        started_at=now,
        entered_at=now,
        updated_at=now,
        candidate_id="better",
        **fields,
    )
    source: CycleState = "idle"
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        for number, target in enumerate(ways[state], 1):
            cycle = msgspec.structs.replace(cycle, state=target, version=number)
            move = CycleTransition(
                cycle_id=cycle.id,
                number=number,
                source=source,
                target=target,
                rule=f"Rule {number}.",
                inputs="",
                actor="autopilot" if number < 3 else "bob",
                at=now,
            )
            store.cycles.put(cycle, move)
            source = target
    return cycle


def test_status_says_what_is_done_why_it_waits_and_what_comes_next(
    make_project: MakeProject,
) -> None:
    project = make_project(config=CONFIG + INLINE + POLICY)
    idle = project.ratchet("autopilot", "status")
    assert idle.returncode == 0, idle.stderr
    assert "agent-answer: idle (mode propose)" in idle.stdout
    assert "No process runs it: ratchet autopilot run" in idle.stdout
    assert "0 of 10000 rollouts" in idle.stdout
    put(project, request="https://forge/1")
    found: Any = project.json("autopilot", "status")
    assert (found["state"], found["running"]) == ("approval", False)
    assert found["does"] == "30 of the 100 newest live traces are bad."
    assert found["next"].endswith("ratchet autopilot approve")
    assert "https://forge/1" in project.ratchet("autopilot", "status").stdout


def test_the_live_agent_is_the_one_that_has_traces_and_of_several_one_has_to_be_named(
    make_project: MakeProject,
) -> None:
    project = make_project(config=CONFIG + INLINE)
    put(project)
    assert "  autopilot of agent-answer: approval" in project.ratchet("status").stdout
    record(project, "coach", "spelling")
    found: Any = project.json("autopilot", "status")
    assert (found["agent"], found["state"]) == ("spelling", "idle")
    record(project, "billing")
    several: Any = project.json("autopilot", "status")
    assert several["agent"] == "agent-answer"


def record(project: Project, *agents: str) -> None:
    """Store a live trace of each agent."""
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        store.spans.put(
            [
                SpanRecord(
                    span=Span(
                        trace_id=uuid.uuid4().hex,
                        span_id="a" * 16,
                        parent_id=None,
                        name="answer",
                        start_ns=1,
                        end_ns=2,
                        attributes={},
                    ),
                    agent=agent,
                )
                for agent in agents
            ]
        )


def test_without_traces_of_the_agent_its_status_names_those_there_are(
    make_project: MakeProject,
) -> None:
    project = make_project(config=CONFIG + INLINE + '[autopilot]\nagent = "helper"\n')
    record(project, "billing", "spelling")
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        assert store.leases.acquire("autopilot/helper", "me", now=time.time(), ttl_s=60.0)
    found: Any = project.json("autopilot", "status")
    assert found["waits"] == (
        "There are no live traces of 'helper'. Agents with live traces: billing, spelling."
        " Set agent under [autopilot] to the right name."
    )


def test_a_pause_is_shown_until_it_is_lifted(make_project: MakeProject) -> None:
    project = make_project(config=CONFIG + INLINE)
    paused = project.ratchet("autopilot", "pause", "--by", "ann", "--reason", "Release week.")
    assert paused.stdout.strip() == "Paused. Releases are still watched."
    found: Any = project.json("autopilot", "status")
    assert found["waits"] == "ann paused the autopilot. To continue: ratchet autopilot resume."
    said: Any = project.json("autopilot", "resume", "--by", "bob")
    assert (said["verb"], said["by"], said["agent"]) == ("resume", "bob", "agent-answer")
    after: Any = project.json("autopilot", "status")
    assert "paused" not in after["waits"]


def test_only_an_approver_approves_and_only_what_waits_for_it(make_project: MakeProject) -> None:
    project = make_project(config=CONFIG + INLINE + POLICY)
    nothing = project.ratchet("autopilot", "approve", "--by", "ann")
    assert (nothing.returncode, "No cycle is running" in nothing.stderr) == (2, True)
    cycle = put(project)
    refused = project.ratchet("autopilot", "approve", "--by", "eve")
    assert (refused.returncode, "'eve' may not approve; ann may." in refused.stderr) == (2, True)
    wrong = project.ratchet("autopilot", "approve", "ffff", "--by", "ann")
    assert (wrong.returncode, "not 'ffff'" in wrong.stderr) == (2, True)
    said: Any = project.json("autopilot", "approve", "c1c2", "--by", "ann")
    assert (said["verb"], said["cycle_id"], said["candidate_id"]) == ("approve", cycle.id, "better")
    denied = project.ratchet("autopilot", "approve", "--deny", "--by", "ann")
    assert denied.stdout.strip() == "Denied: candidate better."


def test_explain_tells_a_cycle_move_by_move(make_project: MakeProject) -> None:
    project = make_project(config=CONFIG + INLINE)
    empty = project.ratchet("explain")
    assert (empty.returncode, "no decision to explain" in empty.stderr) == (2, True)
    put(project)
    told = project.ratchet("explain").stdout
    assert told.startswith("Cycle c1c2c3c4\nIt began for this reason: 30 of the 100")
    assert "learn → approval, by bob: Rule 3." in told
    assert "If nothing else happens, its next state, in 3.0 days, is dropped." in told
    unknown = project.ratchet("explain", "ffff")
    assert (unknown.returncode, "matches no decision" in unknown.stderr) == (2, True)


def experiment(**fields: Any) -> Experiment:
    decision = Decision(
        **{
            "verdict": "no_gain",
            "metric": "reward",
            "alpha": 0.01,
            "pairs": 50,
            "baseline": 0.5,
            "candidate": 0.55,
            "e_value": 10.0,
            "interval": (-0.02, 0.12),
            "sentence": "No significant gain.",
            **fields,
        }
    )
    return Experiment(
        id="e1",
        run_id="r",
        baseline_id="b",
        candidate_id="c",
        dataset_version="d",
        stream="s",
        history=(False, True),
        alpha=0.01,
        created_at=1.0,
        decision=decision,
    )


LATENCY = GuardrailResult(
    metric="latency", margin=0.5, unit="s", baseline=1.0, candidate=1.4, e_value=2.0, passed=False
)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "about 100 at the current rate"),
        ({"e_value": 0.9}, "So far there is no evidence for a gain"),
        ({"verdict": "promote", "e_value": 120.0}, "It may be shipped."),
        ({"verdict": "harm"}, "It is proved worse."),
        ({"verdict": "futile"}, "smaller than min_gain"),
        (
            {"verdict": "guardrail", "guardrails": (LATENCY,)},
            "would be shipped if latency were proved to hold",
        ),
        (
            {
                "verdict": "unconfirmed",
                "labelled": LabelledGain(
                    wanted=50, labelled=20, missing=0, e_value=1.5, confirmed=False
                ),
            },
            "ratchet label",
        ),
    ],
)
def test_each_verdict_says_what_would_change_it(fields: dict[str, Any], expected: str) -> None:
    told = explain_experiment(experiment(**fields))
    assert expected in told[-1]
    assert any("100 is needed: this is experiment 3" in sentence for sentence in told)


def test_guardrails_and_labels_are_part_of_the_explanation() -> None:
    told = " ".join(explain_experiment(experiment(guardrails=(LATENCY,))))
    assert "The guardrail latency is not proved to hold: 1 s before, 1.4 s after." in told


def test_a_stage_says_why_it_is_undecided() -> None:
    found = StageDecision(
        stage="shadow",
        verdict=None,
        metric="score",
        alpha=0.01,
        baseline_count=10,
        candidate_count=10,
        baseline=0.5,
        candidate=0.6,
        e_value=3.0,
        needed=100.0,
        sentence="It runs.",
    )
    assert explain_stage(found) == [
        "Shadow: It runs.",
        "It is undecided: the evidence is at 3, and 100 is needed.",
    ]
    held = msgspec.structs.replace(found, verdict="inconclusive")
    assert explain_stage(held)[-1].endswith("A candidate that is not proved is not shipped.")
