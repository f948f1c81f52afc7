"""Traces: listed with their figures, whatever order their spans came in, and found again."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from tests.store.made import pages, rollout

from ratchet.store import Store
from ratchet.store import traces as module
from ratchet.store.usage import usage_text, used_by
from ratchet.types import Feedback, Span, SpanRecord
from ratchet.types.trace import ModelCall, Sort, Trace, TraceFilter, first_of

_numbers = itertools.count(1)
SECOND = 1_000_000_000


def span(trace: str, *, parent: str | None = None, start: float = 0.0, **fields: Any) -> Span:
    number = next(_numbers)
    start_ns = int(start * SECOND)
    given = {
        "trace_id": trace,
        "span_id": f"{number:016x}",
        "parent_id": parent,
        "name": "answer" if parent is None else "step",
        "start_ns": start_ns,
        "end_ns": start_ns + SECOND,
        **fields,
    }
    return Span(**given)


def chat(model: str = "gpt-4o-mini", given: int = 10, made: int = 2, **more: Any) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": model,
        "gen_ai.usage.input_tokens": given,
        "gen_ai.usage.output_tokens": made,
        **more,
    }


def put(store: Store, *spans: Span, agent: str = "bot") -> None:
    store.spans.put([SpanRecord(span=each, agent=agent) for each in spans])


def ids(store: Store, wanted: TraceFilter | None = None, **options: Any) -> list[str]:
    page, _ = store.traces.list(wanted or TraceFilter(), **options)
    return [trace.trace_id for trace in page]


def one(store: Store, trace_id: str) -> Trace:
    (found,) = [t for t in store.traces.list()[0] if t.trace_id == trace_id]
    return found


def add_rollouts(store: Store, *ids: str) -> None:
    store.rollouts.create([rollout(id) for id in ids], 1.0)


def test_a_trace_is_listed_with_its_figures(store: Store) -> None:
    root = span("t", start=10, attributes={"session.id": "chat-1"})
    call = span("t", parent=root.span_id, start=11, attributes=chat(given=100, made=7))
    failed = span(
        "t", parent=root.span_id, start=12, status="error", end_ns=15 * SECOND, attributes={}
    )
    put(store, failed, call, root)
    assert store.traces.list() == (
        [
            Trace(
                trace_id="t",
                name="answer",
                agent="bot",
                start_ns=10 * SECOND,
                duration_s=5.0,
                spans=3,
                errors=1,
                input_tokens=100,
                output_tokens=7,
                cost_usd=None,
                unpriced={"gpt-4o-mini": 1},
                models=("gpt-4o-mini",),
                conversation_id="chat-1",
            )
        ],
        None,
    )


def test_a_trace_whose_root_never_came_is_found_and_says_so(store: Store) -> None:
    put(store, span("t", parent="elsewhere", start=5, name="chat"), span("t", parent="x", start=6))
    found = one(store, "t")
    assert (found.name, found.rootless, found.spans) == ("chat", True, 2)
    # Those that are each other's parents, too.
    ring = span("ring", start=7)
    other = span("ring", parent=ring.span_id, start=8)
    put(store, Span(**{**_fields(ring), "parent_id": other.span_id}), other)
    assert one(store, "ring").rootless
    # A root is one though its clock was behind, so that another span began before it.
    root = span("behind", start=9, name="answer")
    put(store, span("behind", parent=root.span_id, start=8), root)
    assert (one(store, "behind").name, one(store, "behind").rootless) == ("answer", False)


def _fields(item: Span) -> dict[str, Any]:
    return {name: getattr(item, name) for name in item.__struct_fields__}


@given(data=st.data())
def test_every_trace_is_listed_once_however_its_spans_come(
    sqlite_template_store: Store, data: Any
) -> None:
    store = sqlite_template_store
    run = next(_numbers)
    spans = [
        Span(
            trace_id=f"{run}-{data.draw(st.integers(0, 3))}",
            span_id=str(data.draw(st.integers(0, 5))),
            parent_id=data.draw(st.sampled_from([None, "0", "1", "9"])),
            name="s",
            start_ns=data.draw(st.integers(0, 5)),
            end_ns=data.draw(st.integers(0, 5)),
            attributes=data.draw(st.sampled_from([{}, {"session.id": "a"}, {"session.id": "b"}])),
        )
        for _ in range(data.draw(st.integers(1, 12)))
    ]
    while spans:
        some, spans = spans[: (size := data.draw(st.integers(1, 4)))], spans[size:]
        put(store, *some, agent=f"agent{run}")
    wanted = TraceFilter(agent=f"agent{run}")
    listed: list[str] = []
    for page in pages(lambda at: store.traces.list(wanted, limit=2, cursor=at)):
        listed += [trace.trace_id for trace in page]
        for trace in page:
            stored = store.spans.of_trace(trace.trace_id)
            assert trace.spans == len(stored)
            assert trace.start_ns == min(each.start_ns for each in stored)
    stored_ids = {each.trace_id for each in store.spans.live(f"agent{run}", 1_000)[0]}
    assert sorted(listed) == sorted(stored_ids)


@pytest.fixture(scope="module")
def sqlite_template_store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Store.open(f"sqlite:///{tmp_path_factory.mktemp('listed')}/ratchet.db") as opened:
        yield opened


def test_filters(store: Store) -> None:
    put(store, span("a", start=10, name="Book a room"), agent="one")
    put(store, span("b", start=20, status="error"), agent="two")
    put(store, span("c", start=30, end_ns=90 * SECOND, attributes={"session.id": "s"}), agent="two")
    put(store, span("d", start=40, attributes={"ratchet.cost_usd": 0.5}), agent="two")
    store.feedback.add([Feedback(id="f", kind="copy", trace_id="a")], 1.0)
    put(store, span("e", start=50), agent="judge")
    every = ["e", "d", "c", "b", "a"]
    for wanted, expected in (
        (TraceFilter(), every),
        (TraceFilter(agent="two"), ["d", "c", "b"]),
        (TraceFilter(agent="nobody"), []),
        (TraceFilter(agent="judge"), ["e"]),
        (TraceFilter(own_calls=False), ["d", "c", "b", "a"]),
        (TraceFilter(errors=True), ["b"]),
        (TraceFilter(since_ns=20 * SECOND), ["e", "d", "c", "b"]),
        (TraceFilter(until_ns=20 * SECOND), ["a"]),
        (TraceFilter(since_ns=20 * SECOND, until_ns=40 * SECOND), ["c", "b"]),
        (TraceFilter(min_duration_s=60.0), ["c"]),
        (TraceFilter(min_cost_usd=0.1), ["d"]),
        (TraceFilter(name="ROOM"), ["a"]),
        (TraceFilter(conversation_id="s"), ["c"]),
        (TraceFilter(conversation_id="s", agent="one"), []),
        (TraceFilter(feedback=True), ["a"]),
        (TraceFilter(agent="two", errors=True, since_ns=30 * SECOND), []),
    ):
        assert ids(store, wanted) == expected, wanted


def test_live_calls_are_filtered_by_what_they_recorded_of_their_release(store: Store) -> None:
    for trace, arm, group in (("a", "candidate", "de"), ("b", "baseline", "de"), ("c", "", "")):
        recorded = {"ratchet.experiment_id": "cycle", "ratchet.arm": arm, "ratchet.group": group}
        recorded |= {"ratchet.candidate_id": "better"} if arm == "candidate" else {}
        start = ord(trace)
        root = span(trace, start=start, attributes=recorded if arm else {})
        # What only a later span says is no filter; a root that came late is one.
        below = span(trace, parent=root.span_id, start=start + 1, attributes={"ratchet.arm": "x"})
        put(store, below)
        put(store, root)
    assert ids(store, TraceFilter(candidate_id="better")) == ["a"]
    assert ids(store, TraceFilter(experiment_id="cycle")) == ["b", "a"]
    assert ids(store, TraceFilter(experiment_id="cycle", arm="baseline")) == ["b"]
    assert ids(store, TraceFilter(group="de", agent="bot")) == ["b", "a"]
    assert ids(store, TraceFilter(group="de", agent="other")) == []
    assert ids(store, TraceFilter(candidate_id="' OR 1=1 --")) == []
    followed, _ = store.traces.after(0, TraceFilter(arm="candidate"))
    assert [trace.trace_id for trace in followed] == ["a"]


def test_traces_of_rollouts_are_listed_when_asked_for(store: Store) -> None:
    add_rollouts(store, "r", "other")
    put(store, span("live", start=2))
    records = [
        SpanRecord(span=span("shared", start=start), rollout_id="r", fence=fence)
        for fence, start in ((1, 1), (2, 3))
    ]
    store.spans.put([*records, SpanRecord(span=span("o", start=4), rollout_id="other", fence=1)])
    assert ids(store) == ["live"]
    page, _ = store.traces.list(TraceFilter(rollouts=True))
    assert [(t.trace_id, t.rollout_id, t.fence, t.agent) for t in page] == [
        ("o", "other", 1, "q"),
        ("shared", "r", 2, "q"),
        ("live", "", 0, "bot"),
        ("shared", "r", 1, "q"),
    ]
    assert ids(store, TraceFilter(rollouts=True, agent="q")) == ["o", "shared", "shared"]
    first, cursor = store.traces.list(TraceFilter(rollouts=True), limit=2)
    second, end = store.traces.list(TraceFilter(rollouts=True), limit=2, cursor=cursor)
    assert (first + second, end) == (page, None)
    detail = store.traces.get("shared")
    assert detail is not None
    assert (detail.trace.spans, len(detail.spans)) == (2, 2)
    assert [s.start_ns for s in detail.spans] == [SECOND, 3 * SECOND]


@pytest.mark.parametrize("sort", ["slowest", "costliest"])
def test_pages_of_the_first_in_an_order_laid_together_are_the_first_of_all(
    store: Store, monkeypatch: pytest.MonkeyPatch, sort: Sort
) -> None:
    monkeypatch.setattr(module, "MAX_TRACES_EXAMINED", 10)
    monkeypatch.setattr(module, "_WINDOW", 5)
    # The first of all began first: no page of the newest has it.
    took = {f"t{n:02}": (n * 7) % 35 + (100 if n == 0 else 0) for n in range(35)}
    for n, (id, much) in enumerate(took.items()):
        seconds, dollars = (much, 0) if sort == "slowest" else (1, much)
        cost = {"ratchet.cost_usd": dollars / 100}
        put(store, span(id, start=n, end_ns=(n + seconds) * SECOND, attributes=cost))
    found: list[Trace] = []
    count = 0
    for page in pages(lambda at: store.traces.list(sort=sort, limit=3, cursor=at)):
        assert len(page) <= 3
        found = first_of([*found, *page], sort, 3)
        count += 1
    newest_of_equals = sorted(took, key=lambda id: (took[id], id), reverse=True)
    assert [trace.trace_id for trace in found] == newest_of_equals[:3]
    assert count == 4


def test_a_search_for_what_is_rare_is_bounded_and_goes_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_TRACES_EXAMINED", 10)
    monkeypatch.setattr(module, "_WINDOW", 5)
    put(store, *(span(f"t{n:02}", start=n, status="error" if n == 3 else "ok") for n in range(35)))
    errors = TraceFilter(errors=True)
    found = list(pages(lambda at: store.traces.list(errors, limit=2, cursor=at)))
    assert [trace.trace_id for page in found for trace in page] == ["t03"]
    assert len(found) == 4


def test_feedback_shows_at_the_traces_it_is_about(store: Store) -> None:
    put(store, span("a", start=1, attributes={"session.id": "s"}), span("b", start=2))
    store.feedback.add(
        [
            Feedback(id="1", kind="thumbs", value=1.0, trace_id="a"),
            Feedback(id="2", kind="rating", value=0.25, trace_id="a", conversation_id="s"),
            Feedback(id="3", kind="rating", value=0.125, conversation_id="s"),
            Feedback(id="4", kind="copy", trace_id="b", span_id="x"),
        ],
        1.0,
    )
    assert (one(store, "a").feedback, one(store, "a").worst) == (3, 0.125)
    assert (one(store, "b").feedback, one(store, "b").worst) == (1, None)
    detail = store.traces.get("a")
    assert detail is not None
    assert [item.id for item in detail.feedback] == ["2", "1", "3"]


def test_one_trace_with_its_spans_and_no_more_than_are_wanted(store: Store) -> None:
    spans = [span("t", start=n) for n in (3, 1, 2)]
    put(store, *spans)
    detail = store.traces.get("t")
    assert detail is not None
    assert detail.spans == [spans[1], spans[2], spans[0]]
    short = store.traces.get("t", limit=2)
    assert short is not None
    assert (short.trace.spans, short.spans) == (3, [spans[1], spans[2]])
    assert store.traces.get("nothing") is None
    assert store.traces.get("") is None
    assert store.traces.get("\x00") is None


def test_a_trace_is_found_by_the_start_of_its_id(store: Store) -> None:
    put(store, span("abcd"), span("abce"), span("abce"), span("b"))
    assert store.traces.find("abc") == ["abcd", "abce"]
    assert store.traces.find("abcd") == ["abcd"]
    assert store.traces.find("") == store.traces.find("zz") == store.traces.find("a" * 500) == []


def test_what_is_new_is_followed_from_a_mark(store: Store) -> None:
    assert store.traces.mark() == 0
    put(store, span("old"))
    mark = store.traces.mark()
    # On Postgres what may have become visible late comes once more.
    before = {trace.trace_id for trace in store.traces.after(mark)[0]}
    assert before <= {"old"}
    put(store, span("b", start=2), span("a", start=1), agent="two")
    found, mark = store.traces.after(mark)
    assert [t.trace_id for t in found if t.trace_id not in before] == ["a", "b"]
    assert mark == store.traces.mark()
    put(store, span("a", start=3, status="error"), agent="two")
    found, _ = store.traces.after(mark, TraceFilter(agent="two", errors=True))
    assert [(t.trace_id, t.spans) for t in found] == [("a", 2)]


def test_costs_are_those_recorded_or_else_priced(store: Store) -> None:
    known = chat(**{"ratchet.cost_usd": 0.5})
    put(store, span("t", attributes=known), span("t", attributes=chat(model="other", given=100)))
    found = one(store, "t")
    assert (found.cost_usd, found.known_usd, found.unpriced) == (None, 0.5, {"other": 1})

    def price(call: ModelCall) -> float | None:
        return call.input_tokens / 100

    (priced,), _ = store.traces.list(price=price)
    assert (priced.cost_usd, priced.models) == (1.5, ("gpt-4o-mini", "other"))


@pytest.mark.parametrize(
    "odd", [True, -1, 2**70, "12", None, [1], {"a": 1}, float("nan"), float("inf"), 1e300]
)
def test_numbers_that_are_none_count_as_nothing(store: Store, odd: Any) -> None:
    attributes = {
        **chat(),
        "gen_ai.usage.input_tokens": odd,
        "ratchet.cost_usd": odd,
        "gen_ai.request.model": odd,
    }
    used = used_by("s", None, usage_text(attributes)).call
    assert used.input_tokens == 0
    assert used.cost_usd is None or 0 <= used.cost_usd < 1e12
    assert used.model in ("", "12")


def test_pages_are_found_by_an_index_alone(sqlite_url: str) -> None:
    with Store.open(sqlite_url) as store:
        put(store, *(span(f"t{n}", start=n) for n in range(10)))

        def plan(wanted: TraceFilter) -> str:
            query = module._query(wanted, 1, 10, (5, 5))
            engine = store._database.engine
            sql = str(query.compile(engine, compile_kwargs={"literal_binds": True}))
            with engine.connect() as connection:
                rows = connection.execute(text(f"EXPLAIN QUERY PLAN {sql}")).all()
            return " | ".join(str(row[-1]) for row in rows)

        newest = plan(TraceFilter())
        assert "ix_spans_heads" in newest
        assert "ix_spans_first" in newest
        assert "TEMP B-TREE" not in newest
        assert "ix_spans_conversation" in plan(TraceFilter(conversation_id="c"))
