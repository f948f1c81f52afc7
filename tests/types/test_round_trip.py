"""Every noun comes back from JSON and MessagePack as it went in."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.types import (
    Attempt,
    Bool,
    Candidate,
    Choice,
    Claim,
    Code,
    Dataset,
    Decision,
    Declaration,
    Experiment,
    Float,
    GuardrailResult,
    Int,
    Knob,
    Model,
    Outcome,
    Params,
    PromptTemplate,
    Release,
    Resource,
    Rollout,
    Run,
    Score,
    Span,
    SpanEvent,
    Task,
    content_hash,
    version_of,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.integers(-(2**63), 2**63 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
METADATA = st.dictionaries(TEXT, JSON, max_size=3)


@st.composite
def knobs(draw: st.DrawFn) -> Knob:
    kind = draw(st.sampled_from(["int", "float", "choice", "bool"]))
    if kind == "int":
        low, default, high = sorted(draw(st.tuples(WHOLE, WHOLE, WHOLE)))
        return Int(default, low, high, log=low > 0 and draw(st.booleans()))
    if kind == "float":
        low_, default_, high_ = sorted(draw(st.tuples(NUMBER, NUMBER, NUMBER)))
        return Float(default_, low_, high_, log=low_ > 0 and draw(st.booleans()))
    if kind == "bool":
        return Bool(draw(st.booleans()))
    value = st.booleans() | WHOLE | NUMBER | TEXT
    options = draw(st.lists(value, min_size=1, max_size=4, unique_by=lambda o: (type(o), o)))
    return Choice(draw(st.sampled_from(options)), tuple(options))


PARAMS = st.dictionaries(TEXT, knobs(), max_size=3).map(Params)
RESOURCE = st.one_of(
    TEXT.map(lambda t: PromptTemplate(t.replace("{", "{{").replace("}", "}}"))),
    TEXT.map(lambda t: PromptTemplate("{{ a }}" + t.replace("{", ""), engine="jinja2")),
    PARAMS,
    TEXT.map(lambda t: Code(f"def f():\n    return {t!r}\n", "f")),
    st.builds(
        Model,
        TEXT.filter(bool),
        st.none() | TEXT,
        METADATA,
        st.none() | TEXT,
    ),
)
TASK = st.builds(Task, TEXT, JSON, JSON, METADATA)
SCORE = st.builds(
    Score, evaluator=TEXT, version=TEXT, value=st.none() | NUMBER, unit=TEXT, error=TEXT
)
SPAN = st.builds(
    Span,
    trace_id=TEXT,
    span_id=TEXT,
    parent_id=st.none() | TEXT,
    name=TEXT,
    start_ns=WHOLE,
    end_ns=WHOLE,
    attributes=METADATA,
    events=st.lists(st.builds(SpanEvent, TEXT, WHOLE, METADATA), max_size=2).map(tuple),
)
ROLLOUT = st.builds(
    Rollout,
    id=TEXT,
    queue=TEXT,
    candidate_id=TEXT,
    task_id=TEXT,
    input=JSON,
    expected=JSON,
    metadata=METADATA,
    output=JSON,
    duration_s=st.none() | NUMBER,
)
GUARDRAIL = st.builds(GuardrailResult, **dict.fromkeys(("metric", "unit"), TEXT))
DECISION = st.builds(
    Decision,
    metric=TEXT,
    alpha=NUMBER,
    baseline=NUMBER,
    candidate=NUMBER,
    e_value=NUMBER,
    interval=st.tuples(NUMBER, NUMBER),
    pairs=WHOLE,
)
NOUNS: dict[Any, st.SearchStrategy[Any]] = {
    Knob: knobs(),
    Resource: RESOURCE,
    Candidate: st.dictionaries(TEXT, RESOURCE, max_size=3).map(Candidate.of),
    Declaration: st.builds(Declaration, TEXT, RESOURCE, st.none() | TEXT),
    Task: TASK,
    Dataset: st.lists(TASK, max_size=3, unique_by=lambda t: t.id).map(
        lambda tasks: Dataset("d", tuple(tasks), {t.id: "val" for t in tasks})
    ),
    Score: SCORE,
    Span: SPAN,
    Rollout: ROLLOUT,
    Claim: st.builds(Claim, ROLLOUT, WHOLE, NUMBER),
    Outcome: st.builds(
        Outcome,
        rollout_id=TEXT,
        fence=WHOLE,
        status=st.just("failed"),
        started_at=NUMBER,
        ended_at=NUMBER,
        duration_s=NUMBER,
        output=JSON,
        spans=st.tuples(SPAN),
        scores=st.tuples(SCORE),
    ),
    Attempt: st.builds(
        Attempt, rollout_id=TEXT, fence=WHOLE, worker=TEXT, lease_until=NUMBER, started_at=NUMBER
    ),
    Run: st.builds(
        Run, id=TEXT, agent=TEXT, seed=WHOLE, created_at=NUMBER, updated_at=NUMBER, message=TEXT
    ),
    Decision: DECISION,
    Experiment: st.builds(
        Experiment,
        id=TEXT,
        run_id=TEXT,
        baseline_id=TEXT,
        candidate_id=TEXT,
        dataset_version=TEXT,
        alpha=NUMBER,
        created_at=NUMBER,
        decision=st.none() | DECISION,
    ),
    Release: st.builds(Release, id=TEXT, created_at=NUMBER, branch=TEXT),
}


@pytest.mark.parametrize("noun", list(NOUNS), ids=lambda n: getattr(n, "__name__", str(n))[:20])
@given(data=st.data())
def test_a_noun_survives_json_and_message_pack(noun: Any, data: st.DataObject) -> None:
    thing = data.draw(NOUNS[noun])
    packed = msgspec.msgpack.decode(msgspec.msgpack.encode(thing), type=noun)
    read = msgspec.json.decode(msgspec.json.encode(thing), type=noun)
    assert packed == thing
    assert read == thing
    assert content_hash(read) == content_hash(packed) == content_hash(thing)


@given(RESOURCE)
def test_a_resource_keeps_its_version_when_it_is_stored(resource: Resource) -> None:
    read: Any = msgspec.json.decode(msgspec.json.encode(resource), type=Resource)
    assert version_of(read) == version_of(resource)
    assert type(read) is type(resource)


@given(PARAMS)
def test_a_stored_value_keeps_its_type(params: Params) -> None:
    read = msgspec.json.decode(msgspec.json.encode(params), type=Params)
    assert [type(v) for v in read.values.values()] == [type(v) for v in params.values.values()]
