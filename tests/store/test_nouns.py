"""Every noun comes back as it went in, and changes only as its rules allow."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.store.made import decision, experiment, release, rollout, run

from ratchet.store import Store
from ratchet.types import (
    RELEASE_TRANSITIONS,
    STAGE_TRANSITIONS,
    Candidate,
    Code,
    Conflict,
    Dataset,
    Float,
    InputError,
    Int,
    Model,
    Params,
    PromptTemplate,
    Resource,
    Score,
    Span,
    SpanEvent,
    Task,
    version_of,
)

RESOURCES: dict[str, Resource] = {
    "system": PromptTemplate("Answer {question} like «ü»."),
    "page": PromptTemplate("Hello {{ name }}", engine="jinja2"),
    "knobs": Params({"k": Int(5, 1, 20), "t": Float(0.3, 0.0, 1.0)}, {"k": 7}),
    "rank": Code("def rank(a):\n    return a\n", "rank"),
    "model": Model("m", base_url="http://localhost", sampling={"temperature": 0.2}),
}


def test_versions_of_a_name_are_listed_in_the_order_they_were_first_put(store: Store) -> None:
    first, second = PromptTemplate("one"), PromptTemplate("two")
    store.resources.put("p", first, now=1.0)
    store.resources.put("p", second, now=2.0)
    store.resources.put("p", first, now=3.0)
    store.resources.put("other", first, now=4.0)
    assert store.resources.versions("p") == [(version_of(first), 1.0), (version_of(second), 2.0)]
    assert store.resources.versions("nobody") == []


def test_what_is_unknown_is_named(store: Store) -> None:
    for get in (store.resources.get, store.candidates.get, store.datasets.get):
        with pytest.raises(InputError, match="'nothing'"):
            get("nothing")
    assert store.runs.get("nothing") is None
    assert store.experiments.get("nothing") is None
    assert store.releases.get("nothing") is None
    assert store.runs.latest() is None
    assert store.datasets.latest("nothing") is None


def test_a_candidate_comes_back_with_its_resources(store: Store) -> None:
    candidate = Candidate.of(RESOURCES, parents=("a", "b"), algorithm="Tune", reason="trial 3")
    store.candidates.put(candidate, now=1.0)
    assert store.candidates.get(candidate.id) == candidate
    for name, resource in RESOURCES.items():
        assert store.resources.put(name, resource, now=2.0) == version_of(resource)
        assert store.resources.get(version_of(resource)) == resource


def test_a_short_id_finds_its_candidates(store: Store) -> None:
    made = [Candidate.of({"p": PromptTemplate(f"{n}")}) for n in range(40)]
    for candidate in made:
        store.candidates.put(candidate, now=1.0)
    prefix = made[0].id[:1]
    assert store.candidates.find(prefix) == [c for c in made if c.id.startswith(prefix)]
    assert store.candidates.find(made[3].id) == [made[3]]
    assert store.candidates.find("%") == []
    assert len(store.candidates.find("")) == 40


def test_a_dataset_comes_back_in_its_order(store: Store) -> None:
    tasks = tuple(Task(f"t{n}", {"q": n}, [n], {"from": "test"}) for n in (3, 1, 2))
    dataset = Dataset("d", tasks, {"t1": "train", "t2": "val", "t3": "test"}, "captured")
    version = store.datasets.put(dataset, now=1.0)
    assert store.datasets.get(version) == dataset
    assert store.datasets.latest("d") == dataset
    assert store.datasets.put(Dataset("none", (), {}), now=1.0)
    assert store.datasets.latest("none") == Dataset("none", (), {})


def test_the_first_entry_of_a_key_stays_in_the_journal(store: Store) -> None:
    assert store.journal.append("run", "a", {"v": (1, 2)}, 1.0) == {"v": [1, 2]}
    assert store.journal.append("run", "b", None, 2.0) is None
    assert store.journal.append("run", "a", "again", 3.0) == {"v": [1, 2]}
    assert store.journal.append("other", "a", 7, 4.0) == 7
    assert store.journal.read("run") == [("a", {"v": [1, 2]}), ("b", None)]
    assert store.journal.get("run", "a") == {"v": [1, 2]}
    assert store.journal.get("run", "b", default="absent") is None
    assert store.journal.get("run", "c", default="absent") == "absent"


def test_a_run_moves_only_as_the_table_allows(disk: Store) -> None:
    for before, allowed in STAGE_TRANSITIONS.items():
        for after in STAGE_TRANSITIONS:
            id = f"{before}-{after}"
            disk.runs.put(run(id, stage=before))
            if after == before or after in allowed:
                disk.runs.put(run(id, stage=after, updated_at=2.0, message="on"))
                assert disk.runs.get(id) == run(id, stage=after, updated_at=2.0, message="on")
            else:
                with pytest.raises(Conflict, match=rf"{before}.*cannot go to '{after}'"):
                    disk.runs.put(run(id, stage=after))
                assert disk.runs.get(id) == run(id, stage=before)


def test_a_decision_stays(store: Store) -> None:
    store.experiments.put(experiment())
    decided = experiment(decision=decision())
    store.experiments.put(decided)
    store.experiments.put(experiment(decision=decision(), evidence_path="e.json"))
    for other in (experiment(), experiment(decision=decision("harm"))):
        with pytest.raises(Conflict, match=r"Experiment e is decided \(promote\)"):
            store.experiments.put(other)
    found = store.experiments.get("e")
    assert found == experiment(decision=decision(), evidence_path="e.json")


def test_what_was_not_proved_may_still_be_decided_once(store: Store) -> None:
    store.experiments.put(experiment(decision=decision("not_proved")))
    with pytest.raises(Conflict, match=r"Experiment e is decided \(not_proved\)"):
        store.experiments.put(experiment())
    store.experiments.put(experiment(decision=decision()))
    with pytest.raises(Conflict, match=r"Experiment e is decided \(promote\)"):
        store.experiments.put(experiment(decision=decision("not_proved")))


def test_experiments_are_listed_in_the_order_in_which_they_began(store: Store) -> None:
    store.experiments.put(experiment("a", run_id="one", decision=decision()))
    store.experiments.put(experiment("b", run_id="one", decision=decision("harm")))
    store.experiments.put(experiment("c", run_id="two", dataset_version="x"))
    store.experiments.put(experiment("b", run_id="one", decision=decision("harm")))
    assert [e.id for e in store.experiments.history()] == ["a", "b", "c"]
    assert [e.id for e in store.experiments.list(limit=2)] == ["c", "b"]
    assert [e.id for e in store.experiments.find("b")] == ["b"]


def test_a_release_moves_only_as_the_table_allows(disk: Store) -> None:
    for before, allowed in RELEASE_TRANSITIONS.items():
        for after in RELEASE_TRANSITIONS:
            id = f"{before}-{after}"
            disk.releases.put(release(id, state=before))
            if after == before or after in allowed:
                disk.releases.put(release(id, state=after))
            else:
                with pytest.raises(Conflict, match=rf"{before}.*cannot become '{after}'"):
                    disk.releases.put(release(id, state=after))
    latest = disk.releases.latest()
    assert latest is not None
    assert latest.id == "rolled_back-rolled_back"


def test_spans_come_back_in_the_order_they_started(store: Store) -> None:
    def span(id: str, start: int, **fields: Any) -> Span:
        return Span(trace_id="t" * 32, span_id=id, name="n", start_ns=start, end_ns=2**62, **fields)

    late = span("b", 20, parent_id="a", status="error", message="broke", attributes={"k": [1]})
    early = span("a", 10, events=(SpanEvent("exception", 15, {"type": "E"}), SpanEvent("x", 16)))
    store.rollouts.create([rollout("r")], 1.0)
    store.spans.add("r", 1, [late, early])
    store.spans.add("r", 1, [late])
    store.spans.add("r", 2, [late])
    store.spans.add(None, 0, [early])
    store.spans.add(None, 0, [early, late])
    store.spans.add("r", 1, [])
    assert store.spans.of("r", fence=1) == [early, late]
    assert store.spans.of("r") == [early, late, late]
    assert store.spans.of(None) == [early, late]
    assert store.spans.of("x") == []


def test_spans_and_scores_of_a_rollout_that_is_not_in_the_store_are_refused(store: Store) -> None:
    store.rollouts.create([rollout("r")], 1.0)
    score = Score(evaluator="e", version="1", value=1.0)
    span = Span(trace_id="t", span_id="s", name="n", start_ns=1, end_ns=2)
    with pytest.raises(InputError, match=r"no rollout 'x'.*Create the rollout before"):
        store.scores.add([("r", score), ("x", score)], 1.0)
    with pytest.raises(InputError, match="no rollout 'x'"):
        store.spans.add("x", 1, [span])
    assert store.scores.of(["r", "x"]) == {"r": [], "x": []}


def test_a_later_score_of_the_same_evaluator_version_replaces_the_earlier(store: Store) -> None:
    exact = Score(evaluator="exact", version="1", value=1.0, rationale="equal")
    broken = Score(evaluator="judge", version="1", value=None, error="no key")
    store.rollouts.create([rollout("r")], 1.0)
    store.scores.add([("r", exact), ("r", broken)], 1.0)
    again = Score(evaluator="judge", version="1", value=0.5)
    newer = Score(evaluator="judge", version="2", value=3.0, unit="s")
    store.scores.add([("r", again), ("r", newer)], 2.0)
    store.scores.add([], 3.0)
    assert store.scores.of(["r", "x"]) == {"r": [exact, again, newer], "x": []}


def test_means_leave_errors_out_and_count_them(store: Store) -> None:
    def score(value: float | None, evaluator: str = "m", version: str = "1") -> Score:
        error = "" if value is not None else "broke"
        return Score(evaluator=evaluator, version=version, value=value, error=error)

    made = [("1", "a", "x/1"), ("2", "a", "x/1"), ("3", "a", "x/2"), ("4", "b", "y")]
    store.rollouts.create([rollout(i, candidate_id=c, purpose=p) for i, c, p in made], 1.0)
    given = [("1", score(1.0)), ("2", score(0.5)), ("3", score(None)), ("4", score(0.0, "l"))]
    store.scores.add(given, 1.0)
    assert store.scores.means() == [("a", "m", 0.75, 2, 1), ("b", "l", 0.0, 1, 0)]
    assert store.scores.means(purpose="x/1") == [("a", "m", 0.75, 2, 0)]
    assert store.scores.means(purpose="x/2") == [("a", "m", None, 0, 1)]
    assert store.scores.means(candidate_id="b") == [("b", "l", 0.0, 1, 0)]
    assert store.scores.means(version="2") == []


BAD = "NUL \x00, lone \ud800 surrogate, whole \U0001f600"
CLEAN = "NUL \ufffd, lone \ufffd surrogate, whole \U0001f600"
IN_JSON = "NUL \x00, lone \ufffd surrogate, whole \U0001f600"


def test_text_that_a_database_cannot_hold_is_replaced_where_it_stands(store: Store) -> None:
    said = {"queue": BAD, "task_id": BAD, "metadata": {"m": BAD}, "purpose": BAD}
    bad = rollout(BAD, input={BAD: [BAD, (1, BAD)]}, **said)
    assert store.rollouts.create([bad], 1.0) == 1
    assert store.rollouts.create([bad], 1.0) == 0
    (claim,) = store.rollouts.claim(BAD, BAD, 1, 10.0, 2.0)
    assert claim.rollout.id == claim.rollout.queue == claim.rollout.purpose == CLEAN
    assert claim.rollout.input == {IN_JSON: [IN_JSON, [1, IN_JSON]]}
    assert claim.rollout.metadata == {"m": IN_JSON}
    assert store.rollouts.heartbeat([(BAD, 1)], 10.0, 3.0) == {(BAD, 1)}
    assert store.rollouts.list(purpose=BAD)[0][0].id == CLEAN
    assert len(store.rollouts.get([BAD])) == 1
    store.journal.append(BAD, BAD, BAD, 1.0)
    assert store.journal.read(BAD) == [(CLEAN, IN_JSON)]
    store.scores.add([(BAD, Score(evaluator="e", version="1", value=1.0, rationale=BAD))], 1.0)
    assert store.scores.of([CLEAN])[CLEAN][0].rationale == CLEAN
    assert store.scores.of([BAD])[BAD][0].rationale == CLEAN
    store.runs.put(run(BAD, message=BAD))
    found = store.runs.get(BAD)
    assert found is not None
    assert found.message == IN_JSON
    store.runs.put(run(BAD, message="mended"))


def test_a_value_without_json_form_is_refused_and_nothing_is_stored(store: Store) -> None:
    fine, bad = rollout("fine"), rollout("bad", input=object())
    with pytest.raises(InputError, match="type object cannot be stored as JSON"):
        store.rollouts.create([fine, bad], 1.0)
    assert store.rollouts.get(["fine", "bad"]) == {}


def test_json_comes_back_exactly(store: Store) -> None:
    value = {"b": 1, "a": [None, True, 0.1, -1e-300, 2**60, "", "ü"], "": {"deep": [[[]]]}}
    store.journal.append("r", "k", value, 1.0)
    stored = store.journal.get("r", "k")
    assert stored == value
    assert list(stored) == list(value)


def test_an_id_prefix_is_no_pattern(store: Store) -> None:
    ids = ["a_1", "a%1", "aX1", "b"]
    store.rollouts.create([rollout(id) for id in ids], 1.0)
    assert [r.id for r in store.rollouts.find("a_")] == ["a_1"]
    assert [r.id for r in store.rollouts.find("a%")] == ["a%1"]
    assert [r.id for r in store.rollouts.find("a")] == ids[:3]
    pages = [[r.id for r in store.rollouts.list(limit=n)[0]] for n in range(1, 4)]
    assert all(short == long[: len(short)] for short, long in pairwise(pages))
