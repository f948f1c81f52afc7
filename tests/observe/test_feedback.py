"""`ratchet.feedback`: told in the background, attached to what runs, never in the program's way."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import ratchet
from ratchet.observe import Handle
from ratchet.observe import delivery as delivery_module
from ratchet.observe import live as live_module
from ratchet.observe.buffer import MAX_FEEDBACK
from ratchet.observe.delivery import Delivery
from ratchet.observe.live import LivePipeline, PipelineStages
from ratchet.observe.record_builder import RecordBuilder
from ratchet.observe.sending import Record, RecordsRejected, TransportUnavailable
from ratchet.observe.setup import flush
from ratchet.observe.spool import MemoryBacklog, Spool
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from ratchet.store.local_agents import open_with_agents
from ratchet.types import Feedback, is_bad
from tests.free_ports import free_port
from tests.observe.test_init import run
from tests.serving import RunningServer

Start = Callable[..., Handle]


@pytest.fixture
def kept(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Feedback]]:
    """Sends what was said into a store of this test, and returns it, oldest first."""
    url = f"sqlite:///{project}/kept.db"
    monkeypatch.setenv("RATCHET_STORE", url)

    def read() -> list[Feedback]:
        assert flush(10)
        with open_with_agents(url) as store:
            return store.feedback.list()[0][::-1]

    return read


Kept = Callable[[], list[Feedback]]


def test_every_way_to_say_something_arrives_as_its_kind(kept: Kept) -> None:
    about = {"trace_id": "t"}
    said = [
        ratchet.feedback(0.75, **about),
        ratchet.feedback(thumbs="up", **about),
        ratchet.feedback(thumbs=False, comment="No.", **about),
        ratchet.feedback(rating=2, scale=(1, 5), **about),
        ratchet.feedback(correction={"answer": "Elm"}, **about),
        ratchet.feedback(preference=("better", {"worse": 1}), **about),
        ratchet.feedback(signal="retry", **about),
        ratchet.feedback(0.0, signal="abandonment", **about),
        ratchet.feedback(comment="Too long.", **about),
    ]
    found = kept()
    assert [item.id for item in found] == said
    assert [(item.kind, item.value, item.content) for item in found] == [
        ("rating", 0.75, None),
        ("thumbs", 1.0, None),
        ("thumbs", 0.0, None),
        ("rating", 0.25, None),
        ("correction", None, {"answer": "Elm"}),
        ("preference", None, {"chosen": "better", "rejected": {"worse": 1}}),
        ("retry", None, None),
        ("abandonment", 0.0, None),
        ("comment", None, None),
    ]
    assert found[2].comment == "No."
    assert all(item.trace_id == "t" and item.created_at > 0 for item in found)


def test_it_may_be_about_anything_and_sent_twice_with_ids_as_opentelemetry_has_them(
    kept: Kept,
) -> None:
    given: Any = {"trace_id": 0xAB, "span_id": 0xCD}
    assert ratchet.feedback(1.0, rollout_id="r", id="mine") == "mine"
    assert ratchet.feedback(0.0, rollout_id="r", id="mine") == "mine"
    ratchet.feedback(1.0, **given)
    ratchet.feedback(1.0, trace_id="AB".rjust(32, "0"))
    ratchet.feedback(1.0, conversation_id="c")
    found = kept()
    trace = "ab".rjust(32, "0")
    assert [(f.rollout_id, f.trace_id, f.span_id, f.conversation_id) for f in found] == [
        ("r", "", "", ""),
        ("", trace, "cd".rjust(16, "0"), ""),
        ("", trace, "", ""),
        ("", "", "", "c"),
    ]
    assert found[0].value == 1.0


def test_within_a_call_it_is_about_that_call_and_its_conversation(start: Start, kept: Kept) -> None:
    start("bot")
    with ratchet.conversation("chat-1"), ratchet.trace("answer") as step:
        trace_id = step.trace_id
        assert ratchet.feedback(thumbs="down")
    (found,) = kept()
    assert (found.trace_id, found.conversation_id) == (trace_id, "chat-1")
    assert len(trace_id) == 32


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"value": 2.0},
        {"value": float("nan")},
        {"value": "good"},
        {"thumbs": "sideways"},
        {"thumbs": "up", "rating": 1.0},
        {"value": 1.0, "thumbs": "up"},
        {"rating": 7, "scale": (1, 5)},
        {"rating": 1, "scale": (1, 1)},
        {"rating": 1, "scale": 5},
        {"preference": "one"},
        {"preference": ("one",)},
        {"preference": ("a", "b", "c")},
        {"signal": "applause"},
        {"comment": " "},
    ],
)
def test_what_says_nothing_is_logged_and_raises_nothing(
    kept: Kept, caplog: pytest.LogCaptureFixture, arguments: dict[str, Any]
) -> None:
    with caplog.at_level(logging.WARNING, "ratchet"):
        assert ratchet.feedback(**arguments, trace_id="t") == ""
    assert "Feedback was not sent" in caplog.text


class Odd:
    def __repr__(self) -> str:
        raise ValueError("no")


def test_what_cannot_be_stored_as_it_is_arrives_as_well_as_possible(kept: Kept) -> None:
    ring: list[Any] = []
    ring.append(ring)
    for odd in (Odd(), ring, {1: {2}}, "x" * 1_000_000, b"\xff", "a\ud800"):
        assert ratchet.feedback(correction=odd, comment="y" * 100_000, trace_id="t\ud800")
    found = kept()
    assert len(found) == 6
    assert all(item.content is not None and len(item.comment) <= 20_000 for item in found)
    assert len(found[3].content) < 100_000


def test_secrets_are_taken_out_before_it_leaves_the_process(kept: Kept) -> None:
    ratchet.feedback(
        correction={"to": "write to ann@example.com"}, comment="ann@example.com", trace_id="t"
    )
    (found,) = kept()
    assert "ann@example.com" not in f"{found.comment} {found.content}"


def test_a_server_that_init_named_gets_it(
    start: Start, server: RunningServer, project: Path
) -> None:
    start("bot", url=server.url)
    assert ratchet.feedback(thumbs="down", conversation_id="c", comment="No.")
    assert flush(10)
    with Store.open(server.store_url) as store:
        ((found,), _) = store.feedback.list(conversation_id="c")
    assert found.comment == "No."


def test_where_capture_is_switched_off_nothing_is_sent(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_DISABLED", "1")
    assert ratchet.feedback(1.0, trace_id="t") == ""
    assert kept() == []


def test_bad_feedback_has_sampling_keep_the_trace(
    start: Start, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = start("bot", sample=0.0)
    with ratchet.trace("fine") as step:
        fine = step.trace_id
    with ratchet.trace("bad") as step:
        bad = step.trace_id
    ratchet.feedback(thumbs="up", trace_id=fine)
    ratchet.feedback(thumbs="down", trace_id=bad)
    kept()
    handle.shutdown(60)
    with open_with_agents(os.environ["RATCHET_STORE"]) as store:
        assert [trace.name for trace in store.traces.list()[0]] == ["bad"]


@pytest.mark.parametrize(
    ("fields", "bad"),
    [
        ({"kind": "thumbs", "value": 0.0}, True),
        ({"kind": "thumbs", "value": 1.0}, False),
        ({"kind": "rating", "value": 0.49}, True),
        ({"kind": "rating", "value": 0.5}, False),
        ({"kind": "correction"}, True),
        ({"kind": "correction", "value": 0.9}, False),
        ({"kind": "retry"}, True),
        ({"kind": "abandonment"}, True),
        ({"kind": "copy"}, False),
        ({"kind": "comment"}, False),
        ({"kind": "preference"}, False),
    ],
)
def test_what_counts_as_bad(fields: dict[str, Any], bad: bool) -> None:
    assert is_bad(Feedback(id="f", **fields)) is bad


class Taker:
    """Takes feedback, or fails as it is told."""

    label = "the test"

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.failures: list[Exception] = []
        self.refused: set[str] = set()
        self.called = threading.Event()
        self.closed = False

    def send(self, records: Sequence[Record], /) -> None:
        items = [each for each in records if isinstance(each, Feedback)]
        self.called.set()
        if self.failures:
            raise self.failures.pop(0)
        if any(item.id in self.refused for item in items):
            raise RecordsRejected("one is wrong")
        self.taken += [item.id for item in items]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def taker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Taker]:
    monkeypatch.setattr(live_module, "REOPEN_S", 0.001)
    monkeypatch.setattr(delivery_module, "BACK_OFF_S", (0.001, 0.01))
    return Taker()


def opened(taker: Taker, spool: Path | None = None, **options: Any) -> PipelineStages:
    """What a pipeline works with, with a taker behind it."""
    backlog = MemoryBacklog() if spool is None else Spool(spool)
    builder = RecordBuilder("bot", redact_feedback=options.get("redact"))
    return PipelineStages(builder, Delivery(taker, backlog, time.monotonic))


def pipeline(open: Callable[[], PipelineStages]) -> LivePipeline:
    return LivePipeline(open, target="the test", agent="bot")


def all_sent(live: LivePipeline) -> bool:
    """Flushes until everything is stored; False after a minute."""
    deadline = time.monotonic() + 60
    while not live.flush(60):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def item(id: str) -> Feedback:
    return Feedback(id=id, kind="copy", trace_id="t")


def test_a_bounded_number_waits_and_the_program_never_does(
    taker: Taker, caplog: pytest.LogCaptureFixture
) -> None:
    gate = threading.Event()

    def open() -> PipelineStages:
        gate.wait(60)
        return opened(taker)

    live = pipeline(open)
    sent = [live.take_feedback(item(str(number))) for number in range(MAX_FEEDBACK + 300)]
    assert not all(sent)
    assert sum(sent) == MAX_FEEDBACK
    assert caplog.text.count("further ones are dropped") == 1
    assert not live.flush(0.01)
    gate.set()
    assert all_sent(live)
    assert len(taker.taken) == sum(sent)


def test_what_waits_in_memory_for_another_target_goes_where_all_goes_now(taker: Taker) -> None:
    other = Taker()
    taker.failures = [TransportUnavailable("gone")] * 1_000
    live = pipeline(lambda: opened(taker))
    live.take_feedback(item("a"))
    assert not live.flush(60)
    live.configure(lambda: opened(other), target="another", agent="bot")
    live.take_feedback(item("b"))
    assert all_sent(live)
    assert (taker.taken, other.taken) == ([], ["a", "b"])


def test_what_waits_in_memory_is_said_to_be_lost_when_another_target_never_opens(
    taker: Taker, caplog: pytest.LogCaptureFixture
) -> None:
    def never() -> PipelineStages:
        raise TransportUnavailable("no server")

    taker.failures = [TransportUnavailable("gone")] * 1_000
    live = pipeline(lambda: opened(taker))
    live.take_feedback(item("a"))
    assert not live.flush(60)
    live.configure(never, target="another", agent="bot")
    live.shutdown(0.1)
    assert "1 spans and statements of feedback could not be sent and are lost" in caplog.text


def test_a_redaction_of_ones_own_that_fails_lets_nothing_through(
    taker: Taker, caplog: pytest.LogCaptureFixture
) -> None:
    def redact(item: Feedback) -> Feedback:
        if item.id == "1":
            raise RuntimeError("cannot read this")
        return item

    live = pipeline(lambda: opened(taker, redact=redact))
    for number in range(3):
        live.take_feedback(item(str(number)))
    assert all_sent(live)
    assert taker.taken == ["0", "2"]
    assert "Feedback 1 was not sent" in caplog.text


def test_a_server_that_is_away_holds_no_program_up_and_gets_it_from_the_next(
    project: Path, serving: Callable[..., RunningServer], sqlite_url: str
) -> None:
    code = (
        "import ratchet\n"
        "ratchet.feedback(1.0, trace_id='t', id='first', comment='to ann@example.com')\n"
        "ratchet.feedback(1.0, trace_id='t', id='second')\n"
    )
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    done = run(project, code, RATCHET_URL=url, XDG_CACHE_HOME=str(project / "cache"))
    assert done.returncode == 0
    (waiting,) = (project / "cache").rglob("*.spool")
    assert b"ann@example.com" not in waiting.read_bytes()
    server = serving(sqlite_url, ServeSettings(port=port))
    # Whatever the agent's next process does: `init` alone has it sent.
    code = "import ratchet\nassert ratchet.init(instrument=False).flush(60)\n"
    done = run(project, code, RATCHET_URL=server.url, XDG_CACHE_HOME=str(project / "cache"))
    assert done.returncode == 0, done.stderr
    with Store.open(sqlite_url) as store:
        found, _ = store.feedback.list(trace_id="t")
    assert [one.id for one in found] == ["second", "first"]
    assert found[1].comment == "to [redacted:email]"
    assert not list((project / "cache").rglob("*.spool"))


def test_the_handle_flushes_feedback_too(start: Start, project: Path) -> None:
    handle = start("bot")
    with ratchet.trace("answer") as step:
        pass
    assert len(step.trace_id) == 32
    assert ratchet.feedback(thumbs="down", trace_id=step.trace_id, span_id=step.span_id)
    assert handle.flush(60)
    with open_with_agents(f"sqlite:///{project}/.ratchet/ratchet.db") as store:
        ((found,), _) = store.feedback.list(trace_id=step.trace_id)
        assert store.traces.list()[0][0].worst == 0.0
    assert found.span_id == step.span_id
    ratchet.feedback(thumbs="up", trace_id=step.trace_id)
    handle.shutdown(60)
    with open_with_agents(f"sqlite:///{project}/.ratchet/ratchet.db") as store:
        assert len(store.feedback.list(trace_id=step.trace_id)[0]) == 2
    ratchet.feedback(thumbs="up", trace_id=step.trace_id)
    assert flush(60)
    with open_with_agents(f"sqlite:///{project}/.ratchet/ratchet.db") as store:
        assert len(store.feedback.list(trace_id=step.trace_id)[0]) == 3
