"""How a candidate was found, as the pull request tells it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ratchet.autopilot.release_notes import release_notes
from ratchet.store import Store
from ratchet.types import Candidate, PromptTemplate, Rollout, Run, Span

FINDING = {
    "proposals": 9,
    "baseline_val": 0.25,
    "best_val": 0.75,
    "val_tasks": 16,
    "rollouts": 135,
    "coach_calls": 46,
    "dollars": 0.5,
}


@pytest.fixture
def store(sqlite_template: Any, tmp_path: Any) -> Any:
    path = tmp_path / "store.db"
    path.write_bytes(sqlite_template.read_bytes())
    with Store.open(f"sqlite:///{path}") as opened:
        yield opened


def line_of(store: Store, steps: int) -> Run:
    """A run whose best candidate lies so many steps from the source."""
    source = Candidate.of({"system": PromptTemplate("Book a room.")})
    candidate = source
    for number in range(steps):
        store.candidates.put(candidate, 1.0)
        changed = {"system": PromptTemplate(f"Book a room. Rule {number}.")}
        candidate = candidate.derive(changed, algorithm="apo", reason=f"Reason {number}.")
    store.candidates.put(candidate, 1.0)
    run = Run(
        id="run",
        agent="agent:book",
        seed=0,
        stage="ship",
        created_at=1.0,
        updated_at=1.0,
        baseline_id=source.id,
        best_id=candidate.id,
    )
    store.journal.append(run.id, "finding", FINDING, 1.0)
    return run


def test_it_says_how_often_each_test_task_was_run_and_why(store: Store) -> None:
    run = line_of(store, 1)
    body = {"count": 8, "reason": "answers vary"}
    store.journal.append(run.id, "repetitions", body, 1.0)
    _, repeated = release_notes(store, run)
    assert repeated == "Each test task is run 8 times with either candidate: answers vary."


def test_it_says_what_learning_took_and_the_steps_from_the_source(store: Store) -> None:
    cost, head, last, first = release_notes(store, line_of(store, 2))
    assert cost == (
        "Learning tried 9 candidates for 135 rollouts, 46 coach calls, $0.5000; the mean on"
        " 16 val tasks went from 0.250 to 0.750."
    )
    assert "2 steps from the source" in head
    assert last.endswith("by apo: Reason 1.")
    assert first.endswith("by apo: Reason 0.")


def test_it_says_that_own_tests_found_nothing_where_they_were_asked(store: Store) -> None:
    run = line_of(store, 1)
    asked = "it passed all of the repository's tests that touch it"
    assert not any(asked in told for told in release_notes(store, run))
    store.journal.append(run.id, f"test/{run.best_id}", "", 1.0)
    assert any(asked in told for told in release_notes(store, run))


def test_it_says_that_a_model_of_another_provider_needs_the_gateway(store: Store) -> None:
    run = line_of(store, 1)
    asked = Rollout(id="r", queue="q", candidate_id=run.best_id, task_id="t", input="?")
    store.rollouts.create([asked], 1.0)
    claim = store.rollouts.claim("q", "tests/1/1", 1, 60.0, 2.0)[0]
    call = Span(
        trace_id="0" * 32, span_id="1" * 16, name="chat m", start_ns=1, end_ns=2, attributes={}
    )
    store.spans.add("r", claim.fence, [call])
    assert not any("provider" in told for told in release_notes(store, run))
    attributes = {"ratchet.translation.api": "anthropic"}
    store.spans.add("r", claim.fence, [replace(call, span_id="2" * 16, attributes=attributes)])
    attributes = {**attributes, "ratchet.translation.left_out": ["seed", "temperature"]}
    store.spans.add("r", claim.fence, [replace(call, span_id="3" * 16, attributes=attributes)])
    told = release_notes(store, run)[-1]
    assert "whose API the agent does not speak" in told
    assert "Left out of them: seed, temperature." in told
