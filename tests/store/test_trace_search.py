"""Search over live traces, their rows and the figures over many of them, on both databases."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from tests.store.made import pages

from ratchet.observe.redaction import Redactor
from ratchet.store import Store
from ratchet.store import trace_index as module
from ratchet.types import Feedback, Span, SpanRecord
from ratchet.types.trace import ModelCall, TraceFilter

SECOND = 10**9


def trace(
    id: str,
    asked: str = "",
    answered: str = "",
    *,
    start: float = 1.0,
    user: str = "",
    model: str = "small",
    failed: str = "",
    usd: float | None = 0.25,
    **attributes: Any,
) -> list[Span]:
    """A trace of an agent, a model call in it, and a tool that may fail."""
    begun = int(start * SECOND)
    root = Span(
        trace_id=id,
        span_id=f"{id}-root",
        name="answer",
        start_ns=begun,
        end_ns=begun + SECOND,
        attributes={**({"user.id": user} if user else {}), **attributes},
    )
    call = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": model,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 1,
        "gen_ai.input.messages": messages("user", asked),
        "gen_ai.output.messages": messages("assistant", answered),
        **({} if usd is None else {"ratchet.cost_usd": usd}),
    }
    tool = Span(
        trace_id=id,
        span_id=f"{id}-tool",
        parent_id=root.span_id,
        name="execute_tool find_hotels",
        start_ns=begun + 1,
        end_ns=begun + 2,
        status="error" if failed else "ok",
        message=failed,
    )
    return [
        root,
        Span(
            trace_id=id,
            span_id=f"{id}-call",
            parent_id=root.span_id,
            name="chat",
            start_ns=begun + 1,
            end_ns=begun + 3,
            attributes=call,
        ),
        tool,
    ]


def messages(role: str, words: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": words}]}])


def put(store: Store, *traces: list[Span], agent: str = "bot") -> None:
    store.spans.put([SpanRecord(span=span, agent=agent) for spans in traces for span in spans])


def found(store: Store, search: str, **criteria: Any) -> list[str]:
    store.trace_index.complete()
    page, _ = store.traces.list(TraceFilter(search=search, **criteria))
    return [each.trace_id for each in page]


def test_all_words_must_occur_wherever_they_are(store: Store) -> None:
    put(
        store,
        trace("t1", "Please refund the late fee", "Done.", user="ada@example.com", start=1),
        trace("t2", "Please refund me", "The fee was not late.", start=2),
        trace("t3", "Where is my order?", failed="The courier timed out", start=3),
    )
    assert found(store, "refund fee") == ["t2", "t1"]
    assert found(store, "REFUND Fée ") == ["t2", "t1"]
    assert found(store, '"late fee"') == ["t1"]
    assert found(store, '"late fee') == ["t1"]
    assert found(store, "courier") == ["t3"]
    assert found(store, "ada@example.com") == ["t1"]
    assert found(store, "find_hotels small") == ["t3", "t2", "t1"]
    assert found(store, "t2") == ["t2"]
    assert found(store, "refund order") == []


def test_the_last_word_may_be_the_beginning_of_one(store: Store) -> None:
    put(store, trace("t1", "internationalisation of fees"))
    assert found(store, "internat") == ["t1"]
    assert found(store, "internat ") == []
    assert found(store, "internat* fees ") == ["t1"]
    assert found(store, "internat fees") == []


@pytest.mark.parametrize(
    ("text", "search"),
    [
        ("退款申请已提交", "退款"),
        ("退款申请已提交", "申请已"),
        ("ホテルを予約する", "予約"),
        ("환불을 요청합니다", "환불"),
        ("Привет, где мой заказ?", "ПРИВЕТ"),
        ("so happy 🎉🎉 today", "🎉"),
        ("Straße nach Zürich", "strasse zurich"),
    ],
)
def test_every_script_is_searched(store: Store, text: str, search: str) -> None:
    put(store, trace("t1", text), trace("t2", "something else"))
    assert found(store, search) == ["t1"]


@pytest.mark.parametrize(
    "search",
    [
        *('"', '""', "*", "!!!", "'", "a' OR 1=1 --", "NEAR(", "words:refund", "^a", "a AND", "-a"),
        *("a & b", "a:*", "(", "\x00", "\ud800", "%", "'; DROP TABLE trace_words; --", "a" * 500),
        *("\\", "<->", "a <2> b", "{a}", "a\nb\tc", "!a", '"*"'),
    ],
)
def test_nothing_that_is_typed_is_an_error(store: Store, search: str) -> None:
    put(store, trace("t1", "a refund"))
    found(store, search)
    assert found(store, "refund") == ["t1"]


def test_huge_and_odd_texts_are_indexed_by_their_beginning(store: Store) -> None:
    put(
        store,
        trace("t1", "beginning " + "x" * 1_000_000 + " far"),
        trace("t2", "nul \x00 lone \ud800 surrogate"),
        trace("t3", " ".join(f"w{n}" for n in range(200_000))),
        trace("t4", "", **{"ratchet.input": '{"question": "within arguments"}'}),
        trace("t5", "\n".join("deep" for _ in range(10_000)), "[" * 10_000),
    )
    assert found(store, "beginning") == ["t1"]
    assert found(store, "lone surrogate") == ["t2"]
    assert found(store, "w0 w100 ") == ["t3"]
    assert found(store, "w199999") == []
    assert found(store, "arguments") == ["t4"]
    page, _ = store.traces.list(texts=True)
    assert max(len(each.input) for each in page) <= 300
    assert next(each.input for each in page if each.trace_id == "t4") == "within arguments"


def test_a_row_says_what_happened(store: Store) -> None:
    put(
        store,
        trace(
            "t1",
            "Two nights\nin Lisbon",
            "None is free.",
            user="ada",
            failed="No rooms",
            model="m1",
        ),
    )
    for _ in range(2):  # before it is indexed, and after
        (row,), _ = store.traces.list(texts=True)
        assert (row.input, row.output) == ("Two nights in Lisbon", "None is free.")
        assert (row.error, row.user, row.models) == ("No rooms", "ada", ("m1",))
        store.trace_index.complete()


def test_filters_go_together_with_words(store: Store) -> None:
    put(store, trace("t1", "refund", user="ada", model="gpt-4o", start=1))
    put(store, trace("t2", "refund", user="ada", model="gpt-4o-mini", failed="x", start=2))
    put(store, trace("t3", "refund", user="bob", start=3, usd=2.0), agent="other")
    store.feedback.add([Feedback(id="f", kind="thumbs", value=0.0, trace_id="t1")], 1.0)
    assert found(store, "refund", user="ada") == ["t2", "t1"]
    assert found(store, "refund", model="gpt-4o") == ["t1"]
    assert found(store, "refund", errors=True) == ["t2"]
    assert found(store, "refund", agent="other") == ["t3"]
    assert found(store, "refund", min_cost_usd=1.0) == ["t3"]
    assert found(store, "refund", feedback=True) == ["t1"]
    assert found(store, "refund", since_ns=2 * SECOND, until_ns=3 * SECOND) == ["t2"]
    page, _ = store.traces.list(TraceFilter(user="ada"), sort="costliest")
    assert {each.trace_id for each in page} == {"t1", "t2"}
    assert store.traces.list(TraceFilter(user="100%"))[0] == []


def test_pages_of_a_search_hold_each_trace_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WINDOW", 4)
    monkeypatch.setattr(module, "MAX_TRACES_SEARCHED", 8)
    # Several begin at the same nanosecond.
    put(
        store,
        *(trace(f"t{n:02}", "refund", failed="x" * (n % 5 == 0), start=n // 3) for n in range(30)),
    )
    store.trace_index.complete()
    for criteria, expected in (
        (TraceFilter(search="refund"), 30),
        (TraceFilter(search="refund", errors=True), 6),
        (TraceFilter(model="small"), 30),
    ):
        found = pages(lambda at, only=criteria: store.traces.list(only, limit=3, cursor=at))  # type: ignore[misc]
        ids = [each.trace_id for page in found for each in page]
        assert len(ids) == len(set(ids)) == expected
        assert [int(id[1:]) // 3 for id in ids] == sorted(
            (int(id[1:]) // 3 for id in ids), reverse=True
        )


def test_later_spans_and_feedback_bring_a_row_up_to_date(store: Store) -> None:
    root, call, tool = trace("t1", "refund", conversation="c", **{"session.id": "talk"})
    put(store, [tool])
    assert found(store, "refund") == []
    put(store, [root, call])
    assert found(store, "refund") == ["t1"]
    put(store, [root, call])  # sent again
    assert found(store, "refund") == ["t1"]
    assert store.trace_index.facets(TraceFilter()).feedback == 0
    store.feedback.add([Feedback(id="f", kind="thumbs", value=0.0, conversation_id="talk")], 1.0)
    store.trace_index.complete()
    assert store.trace_index.facets(TraceFilter()).feedback == 1


def test_an_earlier_span_moves_a_trace_to_its_start(store: Store) -> None:
    root, call, tool = trace("t1", "refund", start=5)
    put(store, [call])
    put(store, trace("t2", "refund", start=4))
    assert found(store, "refund") == ["t1", "t2"]
    early = Span(trace_id="t1", span_id="early", name="queue", start_ns=SECOND, end_ns=2 * SECOND)
    put(store, [early, root, tool])
    assert found(store, "refund") == ["t2", "t1"]
    assert found(store, "refund", until_ns=2 * SECOND) == ["t1"]


def test_facets_count_what_fits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, trace("t1", "refund", user="ada", failed="x"), trace("t2", "refund", user="ada"))
    put(store, trace("t3", "order", user="bob", model="large"), agent="other")
    store.trace_index.complete()
    facets = store.trace_index.facets(TraceFilter())
    assert facets.agents == {"bot": 2, "other": 1}
    assert facets.models == {"small": 2, "large": 1}
    assert facets.users == {"ada": 2, "bob": 1}
    assert (facets.failed, facets.feedback, facets.traces, facets.more) == (1, 0, 3, False)
    assert store.trace_index.facets(TraceFilter(search="refund")).agents == {"bot": 2}
    monkeypatch.setattr(module, "FACETED", 2)
    few = store.trace_index.facets(TraceFilter())
    assert (few.traces, few.more) == (2, True)


def test_traces_that_change_are_followed_by_what_they_say(store: Store) -> None:
    mark = store.traces.mark()
    put(store, trace("t1", "refund"), trace("t2", "order"))
    changed, _ = store.traces.after(mark, TraceFilter(search="refund"), texts=True)
    assert [(each.trace_id, each.input) for each in changed] == [("t1", "refund")]


def test_redacted_words_are_not_found(store: Store) -> None:
    redact = Redactor().span
    put(store, [redact(span) for span in trace("t1", "my mail is ada@example.com, refund please")])
    assert found(store, "ada@example.com") == []
    assert found(store, "refund") == ["t1"]


def test_pruned_traces_leave_nothing_behind(store: Store) -> None:
    put(store, trace("old", "refund", start=1), trace("new", "refund", start=10_000))
    store.trace_index.complete()
    store.spans.prune(100 * SECOND)
    assert found(store, "refund") == ["new"]  # no longer listed, though not yet swept
    step = store.pruning.trace_rows(100.0, 0, 1)
    assert (step.deleted, step.after) == (1, SECOND)
    assert store.pruning.trace_rows(100.0, step.after or 0, 1).after is None
    assert store.trace_index.facets(TraceFilter()).traces == 1
    count = "SELECT count(*) FROM trace_words"
    with store._database.engine.connect() as connection:
        assert connection.exec_driver_sql(count).scalar() == 1


def test_sums_are_exact(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    dollars = [0.01 * (n % 7) for n in range(300)]
    put(store, *(trace(f"t{n}", start=180 * n, usd=dollars[n]) for n in range(300)))
    put(store, trace("judged", start=5, usd=100.0), agent="judge")
    put(store, trace("free", start=18_000, usd=None, failed="no"), agent="other")
    monkeypatch.setattr(module, "TRACES_PER_STEP", 64)
    store.trace_index.complete()
    by_step = {(each.agent, each.step): each for each in store.trace_index.figures(0, 5)}
    assert set(by_step) == {("bot", 0), ("bot", 1), ("bot", 2), ("other", 1)}
    assert math.isclose(by_step["bot", 1].known_usd, sum(dollars[100:200]))
    assert (by_step["bot", 1].traces, by_step["bot", 1].unpriced) == (100, 0)
    free = by_step["other", 1]
    assert (free.traces, free.errors, free.known_usd, free.unpriced) == (1, 1, 0.0, 1)
    later = store.trace_index.figures(7, 5)
    assert {each.step: each.traces for each in later if each.agent == "bot"} == {
        -1: 140,
        0: 100,
        1: 60,
    }
    assert {each.day for each in later} == {0}
    assert store.trace_index.counts_since(180 * 250 * SECOND) == {"bot": 50}
    assert store.trace_index.counts_since(0) == {"bot": 300, "other": 1}


def test_sums_follow_traces_that_change_and_go(store: Store) -> None:
    put(store, trace("t1", usd=0.5), trace("t2", start=7_200, usd=0.25), trace("t3", start=90_000))
    store.trace_index.complete()
    store.feedback.add([Feedback(id="f", kind="thumbs", value=0.5, trace_id="t1")], 1.0)
    store.trace_index.complete()
    first, second, _ = sorted(store.trace_index.figures(0, 1), key=lambda sums: sums.step)
    assert (first.traces, first.known_usd, first.rated, first.worst_sum) == (1, 0.5, 1, 0.5)
    assert (second.step, second.known_usd, second.rated) == (2, 0.25, 0)
    store.spans.prune(80_000 * SECOND)
    store.pruning.trace_rows(80_000.0)
    (left,) = store.trace_index.figures(0, 1)
    assert (left.day, left.step, left.traces) == (1, 25, 1)


def test_a_price_that_becomes_known_is_counted(store: Store) -> None:
    put(store, trace("t1", usd=None, model="new"), trace("t2", usd=None, model="unknown"))
    store.trace_index.complete()

    def price(call: ModelCall) -> float | None:
        return 0.5 if call.model == "new" else None

    store.trace_index.reprice(price)
    store.trace_index.complete(price)
    (sums,) = store.trace_index.figures(0, 1)
    assert (sums.known_usd, sums.unpriced) == (0.5, 1)


def test_what_is_not_indexed_is_said_and_stays_marked_when_a_step_fails(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, trace("t1", "refund"))
    assert store.trace_index.state().complete_until is not None

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module.TraceIndex, "_add_words", killed)
        with pytest.raises(KeyboardInterrupt):
            store.trace_index.catch_up()
    assert store.trace_index.state().complete_until is not None
    assert found(store, "refund") == ["t1"]
    assert store.trace_index.state() == module.COMPLETE
