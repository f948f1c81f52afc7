"""The live pipeline: what an agent does reaches its store or server, and the agent never waits."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import ratchet
from ratchet.observe import Handle
from ratchet.observe.buffer import Buffer
from ratchet.observe.delivery import Delivery
from ratchet.observe.sending import RecordsRejected, TransportUnavailable
from ratchet.observe.spool import MemoryBacklog, Spool
from ratchet.store import Store
from ratchet.types import SpanRecord
from tests.clocks import Clock
from tests.free_ports import free_port
from tests.observe.conftest import record, stored

Start = Callable[..., Handle]


@ratchet.tool
def look_up(word: str) -> str:
    return word.upper()


@ratchet.agent
def answer(question: str) -> str:
    return look_up(question)


def test_contents_can_be_left_out(start: Start, project: Path) -> None:
    from opentelemetry import trace

    handle = start(capture_content=False)
    answer("a very private thing")
    with trace.get_tracer("x").start_as_current_span("chat") as span:
        span.set_attribute("gen_ai.request.model", "small")
        span.set_attribute("gen_ai.input.messages", '[{"role":"user","content":"private too"}]')
        span.set_attribute("llm.input_messages.0.message.content", "private as well")
        span.set_attribute("input.value", "and this private thing")
    handle.flush(60)
    spans = stored(project)
    assert "rivate" not in str(spans)
    assert spans["chat"].attributes["gen_ai.request.model"] == "small"


def test_redaction_can_be_switched_off(start: Start, project: Path) -> None:
    handle = start(redact=False)
    answer("write to ann@example.com")
    handle.flush(60)
    assert "ann@example.com" in str(stored(project)["answer"])


def test_a_redaction_of_ones_own_that_fails_lets_nothing_through(
    start: Start, project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def redact(record: SpanRecord) -> SpanRecord:
        if record.span.name == "look_up":
            raise RuntimeError("cannot read this")
        return record

    handle = start(redact=redact)
    answer("secret")
    handle.flush(60)
    assert set(stored(project)) == {"answer"}
    assert handle.status().broken == 1
    assert "could not be recorded" in caplog.text


def test_sampling_keeps_errors_and_what_feedback_asks_for(start: Start, project: Path) -> None:
    @ratchet.tool
    def fail() -> None:
        raise ValueError("no")

    @ratchet.agent
    def broken() -> None:
        look_up("before")
        with pytest.raises(ValueError, match="no"):
            fail()

    handle = start(sample=0.0)
    answer("not drawn")
    handle.flush(60)
    with ratchet.trace("disliked") as step:
        trace_id = step.trace_id
    with ratchet.conversation("c1"), ratchet.trace("before"):
        pass
    broken()
    handle.flush(60)
    handle.keep(trace_id=trace_id)
    handle.keep(conversation="c1")
    with ratchet.conversation("c1"), ratchet.trace("after"):
        pass
    handle.flush(60)
    kept = {"look_up", "fail", "broken", "disliked", "before", "after"}
    assert set(stored(project)) == kept


def test_a_server_that_hangs_does_not_hold_up_the_agent_or_its_end(
    start: Start, project: Path
) -> None:
    with closing(socket.socket()) as hanging:
        hanging.bind(("127.0.0.1", 0))
        hanging.listen(16)
        handle = start(url=f"http://127.0.0.1:{hanging.getsockname()[1]}")
        # The socket answers nobody: whatever waited for it would wait for ever.
        for _ in range(200):
            answer("why")
        assert handle.flush(0.5) is False
        handle.shutdown(1.0)
    waiting = sum(path.stat().st_size for path in (project.parent / "cache").rglob("*.spool"))
    assert waiting > 400 * 200, "all of it waits on disk"


def test_what_waits_for_one_server_is_not_sent_to_another(
    start: Start, serving: Any, sqlite_url: str, project: Path
) -> None:
    port = free_port()
    handle = start(url=f"http://127.0.0.1:{port}")
    answer("first")
    assert handle.flush(10) is False
    status = handle.status()
    assert (status.away, status.waiting, status.sent) == (True, 2, 0)
    assert "cannot be reached" in status.last_error
    answer("second")
    server = serving(sqlite_url)  # another port: that one stays away
    handle.shutdown(2)
    assert list((project.parent / "cache").rglob("*.spool"))
    again = start(url=server.url)
    answer("third")
    assert again.flush(60)
    assert again.status().sent == 2


def test_a_key_that_is_refused_is_told_once(
    start: Start, serving: Any, sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Store.open(sqlite_url) as store:
        store.keys.create("theirs", ("admin",), now=0.0)
    server = serving(sqlite_url)
    handle = start(url=server.url, key="rk_wrong")
    for _ in range(2):
        answer("a")
        assert handle.flush(10) is False
    warnings = [r for r in caplog.records if r.name == "ratchet" and r.levelno >= logging.WARNING]
    assert sum("refused the key" in r.getMessage() for r in warnings) == 1
    assert handle.status().waiting == 4, "a right one may come"
    assert "rk_wrong" not in caplog.text


class Simulated:
    """A target that does as it is told."""

    label = "nowhere"

    def __init__(self) -> None:
        self.away = False
        self.bad: set[str] = set()
        self.taken: list[str] = []
        self.calls = 0

    def send(self, records: Sequence[SpanRecord]) -> None:
        self.calls += 1
        if self.away:
            raise TransportUnavailable("it sleeps")
        if self.bad & {record.span.name for record in records}:
            raise RecordsRejected("a bad one is among them")
        self.taken += [record.span.name for record in records]

    def close(self) -> None: ...


def records(*numbers: int) -> list[SpanRecord]:
    return [record(str(number)) for number in numbers]


@pytest.fixture(params=["disk", "memory"])
def backlog(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return Spool(tmp_path / "spool") if request.param == "disk" else MemoryBacklog()


def test_what_waits_goes_first_and_in_order(backlog: Any) -> None:
    target, clock = Simulated(), Clock()
    delivery = Delivery(target, backlog, clock)
    delivery.deliver(records(1, 2))
    target.away = True
    delivery.deliver(records(3, 4))
    delivery.deliver(records(5))
    assert (delivery.away, delivery.waiting, target.calls) == (True, 3, 2), "it is not asked again"
    target.away = False
    delivery.deliver(records(6))
    assert target.taken == ["1", "2"]
    clock.now += 60
    while delivery.due_s == 0.0:
        delivery.retry()
    assert target.taken == ["1", "2", "3", "4", "5", "6"]
    assert (delivery.away, delivery.waiting, delivery.due_s) == (False, 0, None)
    delivery.deliver(records(7))
    assert target.taken[-1] == "7"


def test_pauses_between_tries_grow_and_are_bounded(backlog: Any) -> None:
    target, clock = Simulated(), Clock()
    delivery = Delivery(target, backlog, clock)
    target.away = True
    delivery.deliver(records(1))
    pauses = []
    for _ in range(20):
        due = delivery.due_s
        assert due is not None
        assert due > 0
        pauses.append(due)
        clock.now += due
        delivery.retry()
    assert target.calls == 21
    assert pauses[0] < 0.3
    assert 5 <= max(pauses) <= 10
    assert delivery.outages == 1


def test_one_span_that_is_never_taken_holds_up_no_other(
    backlog: Any, caplog: pytest.LogCaptureFixture
) -> None:
    target = Simulated()
    target.bad = {"13", "77"}
    delivery = Delivery(target, backlog, Clock())
    delivery.deliver(records(*range(100)))
    assert target.taken == [str(n) for n in range(100) if n not in (13, 77)]
    assert (delivery.refused, delivery.sent, delivery.waiting) == (2, 98, 0)
    assert len(caplog.records) == 1


def test_large_batches_wait_in_parts(tmp_path: Path) -> None:
    target, clock = Simulated(), Clock()
    spool = Spool(tmp_path)
    delivery = Delivery(target, spool, clock)
    target.away = True
    large = [
        replace(one, span=replace(one.span, message="x" * 2**20)) for one in records(*range(9))
    ]
    delivery.deliver(large)
    first = spool.first()
    assert first is not None
    assert len(first.data) < 5 * 2**20
    target.away = False
    clock.now += 60
    delivery.retry()
    assert target.taken == [str(n) for n in range(9)]


def test_where_the_disk_takes_nothing_spans_wait_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    target, clock = Simulated(), Clock()
    delivery = Delivery(target, Spool(tmp_path / "file" / "spool"), clock)
    target.away = True
    delivery.deliver(records(1))
    delivery.deliver(records(2))
    assert (delivery.waiting, delivery.keeps_on_disk) == (2, False)
    target.away = False
    clock.now += 60
    delivery.retry()
    assert target.taken == ["1", "2"]
    assert sum("cannot be kept on disk" in record.message for record in caplog.records) == 1


def test_a_batch_of_another_version_is_passed_over(tmp_path: Path) -> None:
    from ratchet.observe.spool import SpoolFrame

    spool = Spool(tmp_path)
    spool.append(SpoolFrame(b'[{"not": "a record"}]', 1))
    target = Simulated()
    delivery = Delivery(target, spool, Clock())
    delivery.deliver(records(1))
    delivery.retry()
    assert target.taken == ["1"]


def test_when_the_queue_is_full_the_oldest_give_way_and_errors_last() -> None:
    buffer = Buffer(lambda _: None, max_spans=10)
    for number in range(8):
        buffer.put(number, 1, error=number < 4)
    for number in range(8, 20):
        buffer.put(number, 1, error=False)
    kept = [held.item for held in buffer.take_all()]
    assert sorted(kept) == [0, 1, 2, 3, 14, 15, 16, 17, 18, 19]
    assert (buffer.dropped, buffer.taken, len(buffer)) == (10, 20, 0)
    for number in range(15):
        buffer.put(number, 1, error=True)
    assert [held.item for held in buffer.take_all()] == list(range(5, 15))


def test_the_queue_is_bounded_in_size_too() -> None:
    buffer = Buffer(lambda _: None, max_weight=1_000)
    for number in range(50):
        buffer.put(number, 300, error=False)
    assert [held.item for held in buffer.take_all()] == [47, 48, 49]
    buffer.put("huge", 5_000, error=False)
    assert len(buffer) == 1, "one is always taken"


def test_a_signal_that_comes_while_a_span_is_put_blocks_nothing(start: Start) -> None:
    handle = start()

    def interrupt(*_: Any) -> None:
        look_up("from the signal")
        # Only now: on a busy machine a periodic timer would interrupt its own handler without end.
        signal.setitimer(signal.ITIMER_REAL, 0.0005)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005)
        for _ in range(3_000):
            look_up("x")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert handle.flush(60)
    assert handle.status().sent > 3_000


def test_threads_and_pools_begin_in_the_trace_of_whoever_started_them(
    start: Start, project: Path
) -> None:
    @ratchet.agent
    def busy() -> None:
        thread = threading.Thread(target=step, args=("in a thread",))
        thread.start()
        thread.join()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(step, ["in a pool", "in the same pool"]))
        asyncio.run(asyncio.to_thread(step, "in asyncio's pool"))  # type: ignore[arg-type]

    def step(name: str) -> None:
        with ratchet.trace(name):
            pass

    handle = start()
    busy()
    handle.flush(60)
    spans = stored(project)
    root = spans.pop("busy")
    assert len(spans) == 4
    assert {span.parent_id for span in spans.values()} == {root.span_id}


def test_a_thread_that_outlives_its_step_begins_traces_of_its_own(
    start: Start, project: Path
) -> None:
    go_on = threading.Event()

    def work() -> None:
        with ratchet.trace("while it runs"):
            pass
        go_on.wait(60)
        with ratchet.trace("long after"):
            pass

    handle = start()
    with ratchet.trace("root"):
        thread = threading.Thread(target=work)
        thread.start()
        while handle.status().taken < 1:
            thread.join(0.01)
    go_on.set()
    thread.join()
    handle.flush(60)
    spans = stored(project)
    assert spans["while it runs"].parent_id == spans["root"].span_id
    assert spans["long after"].parent_id is None
    assert spans["long after"].trace_id != spans["root"].trace_id


def test_steps_of_a_stream_stand_under_it_and_those_of_its_reader_do_not(
    start: Start, project: Path
) -> None:
    @ratchet.agent
    def stream(n: int) -> Iterator[str]:
        for number in range(n):
            yield look_up(f"w{number}")

    @ratchet.agent
    async def stream_async(n: int) -> AsyncIterator[str]:
        for number in range(n):
            await asyncio.sleep(0)
            yield look_up(f"v{number}")

    async def read() -> None:
        async for item in stream_async(2):
            with ratchet.trace(f"read {item}"):
                await asyncio.sleep(0)

    handle = start()
    for item in stream(2):
        with ratchet.trace(f"read {item}"):
            pass
    asyncio.run(read())
    handle.flush(60)
    spans = stored(project)
    assert all(span.parent_id is None for name, span in spans.items() if "read" in name)
    for name in ("stream", "stream_async"):
        assert spans[name].parent_id is None
        assert 0 < spans[name].attributes["gen_ai.response.time_to_first_chunk"] < 5
        assert len(json.loads(spans[name].attributes["ratchet.output"])) == 2
    assert spans["look_up"].parent_id == spans["stream_async"].span_id


def test_model_calls_have_their_messages(start: Start, project: Path) -> None:
    answered = {
        "id": "r1",
        "model": "small-1",
        "choices": [
            {"finish_reason": "stop", "message": {"role": "assistant", "content": "At nine."}}
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "When?"}]},
    ]

    @ratchet.llm_call(provider="openai")
    def chat(model: str, messages: list[Any], temperature: float = 1.0) -> Any:
        return answered

    @ratchet.llm_call(model="tiny")
    def stream(prompt: str) -> Iterator[str]:
        yield "At "
        yield "nine."

    handle = start()
    chat("small", messages, temperature=0.2)
    list(stream("When?"))
    with ratchet.llm_call(name="by hand", model="m") as call:
        call.input = {"messages": messages}
        call.output = "At nine."
        call.set("gen_ai.usage.input_tokens", 5)
    handle.flush(60)
    spans = stored(project)
    text = {"type": "text", "content": "At nine."}
    for name in ("chat", "stream", "by hand"):
        said = json.loads(spans[name].attributes["gen_ai.output.messages"])
        assert said[0]["parts"] == [text]
        assert spans[name].attributes["gen_ai.operation.name"] == "chat"
        sent = json.loads(spans[name].attributes["gen_ai.input.messages"])
        assert sent[-1]["parts"] == [{"type": "text", "content": "When?"}]
    seen = spans["chat"].attributes
    assert seen["gen_ai.request.model"] == "small"
    assert seen["gen_ai.response.model"] == "small-1"
    assert seen["gen_ai.request.temperature"] == 0.2
    assert (seen["gen_ai.usage.input_tokens"], seen["gen_ai.usage.output_tokens"]) == (7, 3)
    assert seen["gen_ai.response.finish_reasons"] == ["stop"]
    assert spans["stream"].attributes["gen_ai.request.stream"] is True
    assert spans["by hand"].attributes["gen_ai.usage.input_tokens"] == 5


def test_searches_have_their_query_and_documents(start: Start, project: Path) -> None:
    @ratchet.retriever
    def search(query: str, k: int = 3) -> list[dict[str, Any]]:
        return [{"id": "d1", "score": 0.5}]

    @ratchet.retriever()
    async def search_async(query: str) -> list[str]:
        return ["d2"]

    handle = start()
    search("rooms", k=1)
    asyncio.run(search_async("tables"))  # type: ignore[arg-type]
    with ratchet.retriever(name="by hand") as step:
        step.input = {"query": "chairs"}
        step.output = []
    handle.flush(60)
    spans = stored(project)
    for name, query in (("search", "rooms"), ("search_async", "tables"), ("by hand", "chairs")):
        assert spans[name].attributes["gen_ai.operation.name"] == "retrieval"
        assert spans[name].attributes["gen_ai.retrieval.query.text"] == query
    assert json.loads(spans["search"].attributes["gen_ai.retrieval.documents"])[0]["id"] == "d1"


def test_a_clock_that_is_set_back_tears_no_tree_apart(
    start: Start, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([2_000_000_000 * 10**9, 10**9, 10**9, 10**9])
    handle = start()
    look_up("warm up")
    monkeypatch.setattr("ratchet.observe.step_span.time_ns", lambda: next(times))
    answer("why")
    handle.flush(60)
    spans = stored(project)
    outer, inner = spans["answer"], spans["look_up"]
    assert outer.start_ns == 2_000_000_000 * 10**9
    assert outer.start_ns <= inner.start_ns <= inner.end_ns <= outer.end_ns
    assert outer.end_ns - outer.start_ns < 10 * 10**9


class Hostile:
    """An object that raises whatever one asks it."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no class")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no attribute")

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = None  # type: ignore[assignment]


def test_whatever_goes_in_and_out_is_recorded_as_well_as_can_be(
    start: Start, project: Path
) -> None:
    @ratchet.tool
    def echo(value: Any) -> Any:
        return value

    cycle: list[Any] = []
    cycle.append(cycle)
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]
    hostile = Hostile()
    values = [hostile, {"a": hostile}, cycle, deep, object, "\ud800", b"\xff" * 10, float("nan")]
    values += [10**400, {1: 2}, {(1, 2): 3}, iter([1]), lambda: 1, {1, "a"}, 2**70, None]
    handle = start()
    for value in values:
        assert echo(value) is value
    for key, value in enumerate(values):
        with ratchet.trace(f"step {key}") as step:
            step.set(f"key {key}", value)
            step.set("\ud800", "\ud800")
            step.input = value
            step.output = value
    with pytest.raises(OSError, match="name"), ratchet.trace("failed"):
        raise OSError("name \udcff")
    handle.flush(60)
    status = handle.status()
    assert (status.sent, status.broken, status.refused) == (2 * len(values) + 1, 0, 0)
    assert stored(project)["failed"].message == "OSError: name \ufffd"


def test_huge_values_take_no_longer_than_small_ones(start: Start, project: Path) -> None:
    import numpy

    text = "x" * 50_000_000
    huge: list[Any] = [
        text,
        {"document": text},
        [{"inner": {"text": text}}],
        list(range(2_000_000)),
        {"rows": [{"n": 1}] * 500_000},
        b"x" * 50_000_000,
        numpy.zeros(5_000_000),
        set(range(500_000)),
    ]

    @ratchet.tool
    def echo(value: Any) -> Any:
        return value

    handle = start()
    begun = time.process_time()
    for value in huge:
        echo(value)
    assert time.process_time() - begun < 2.0
    handle.flush(60)
    assert handle.status().sent == len(huge)
    attributes = stored(project)["echo"].attributes
    assert max(len(str(value)) for value in attributes.values()) < 20_000


def test_thousands_of_attributes_and_events_are_bounded(start: Start, project: Path) -> None:
    from opentelemetry import trace

    handle = start()
    with ratchet.trace("step") as step:
        for number in range(5_000):
            step.set(f"key {number}", "x" * 100)
            trace.get_current_span().add_event(f"event {number}")
    with trace.get_tracer("x").start_as_current_span("theirs") as span:
        span.set_attribute("huge", "x" * 10_000_000)
    handle.flush(60)
    spans = stored(project)
    assert 400 < len(spans["step"].attributes) < 600
    assert spans["step"].attributes["otel.dropped_attributes_count"] >= 4_400
    assert len(spans["step"].events) < 500
    assert len(spans["theirs"].attributes["huge"]) < 300_000


def test_the_current_span_takes_what_opentelemetry_offers(start: Start, project: Path) -> None:
    from opentelemetry import trace
    from opentelemetry.trace import Status, StatusCode

    handle = start()
    with ratchet.trace("step"):
        span = trace.get_current_span()
        assert span.is_recording()
        span.set_attributes({"a": 1, "b": ["x", "y"], "c": object()})  # type: ignore[dict-item]
        span.update_name("renamed")
        span.record_exception(ValueError("seen"))
        span.add_link(span.get_span_context())
        span.set_status(Status(StatusCode.ERROR, "went wrong"))
    assert not span.is_recording()
    span.set_attribute("late", 1)
    handle.flush(60)
    renamed = stored(project)["renamed"]
    assert renamed.attributes["b"] == ["x", "y"]
    assert "late" not in renamed.attributes
    assert (renamed.status, renamed.message) == ("error", "went wrong")
    assert renamed.events[0].attributes["exception.message"] == "seen"
