"""`ratchet.feedback`: told in the background, attached to what runs, never in the program's way."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import ratchet
from ratchet.observe import Handle
from ratchet.observe import outbox as module
from ratchet.observe.feedback import flush
from ratchet.observe.outbox import MOST_WAITING, Outbox
from ratchet.observe.sending import Away, Refused
from ratchet.store import Store
from ratchet.types import Feedback, is_bad
from tests.serving import RunningServer

Start = Callable[..., Handle]


@pytest.fixture
def kept(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Feedback]]:
    """Sends what was said into a store of this test, and returns it, oldest first."""
    url = f"sqlite:///{project}/kept.db"
    monkeypatch.setenv("RATCHET_STORE", url)

    def read() -> list[Feedback]:
        assert flush(10)
        with Store.open(url) as store:
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


def test_it_may_be_about_anything_long_after_and_sent_twice(kept: Kept) -> None:
    assert ratchet.feedback(1.0, rollout_id="r", id="mine") == "mine"
    assert ratchet.feedback(0.0, rollout_id="r", id="mine") == "mine"
    ratchet.feedback(1.0, trace_id="t", span_id="s")
    ratchet.feedback(1.0, conversation_id="c")
    found = kept()
    assert [(f.rollout_id, f.trace_id, f.span_id, f.conversation_id) for f in found] == [
        ("r", "", "", ""),
        ("", "t", "s", ""),
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


def test_feedback_about_nothing_is_logged(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    assert ratchet.feedback(1.0) == ""
    assert "name a rollout, a trace or a conversation" in caplog.text


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
    handle.shutdown(10)
    with Store.open(os.environ["RATCHET_STORE"]) as store:
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

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.failures: list[Exception] = []
        self.refused: set[str] = set()
        self.called = threading.Event()
        self.closed = False

    def take(self, items: Sequence[Feedback]) -> None:
        self.called.set()
        if self.failures:
            raise self.failures.pop(0)
        if any(item.id in self.refused for item in items):
            raise Refused("one is wrong")
        self.taken += [item.id for item in items]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def taker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Taker]:
    monkeypatch.setattr(module, "_PAUSE_S", (0.001, 0.01))
    return Taker()


def item(id: str) -> Feedback:
    return Feedback(id=id, kind="copy", trace_id="t")


def test_what_a_target_that_is_away_did_not_take_is_sent_later_in_order(taker: Taker) -> None:
    taker.failures = [Away("gone"), Away("gone"), Away("gone")]
    box = Outbox(lambda: taker)
    for number in range(5):
        assert box.put(item(str(number)))
    assert box.flush(10)
    assert taker.taken == ["0", "1", "2", "3", "4"]


def test_a_target_that_cannot_be_opened_yet_is_opened_later(taker: Taker) -> None:
    failures: list[Exception] = [Away("no server"), RuntimeError("a defect")]

    def open() -> Taker:
        if failures:
            raise failures.pop(0)
        return taker

    box = Outbox(open)
    box.put(item("a"))
    box.flush(10)
    box.put(item("b"))
    assert box.flush(10)
    assert taker.taken[-1:] == ["b"]


def test_one_statement_that_is_refused_costs_only_itself(
    taker: Taker, caplog: pytest.LogCaptureFixture
) -> None:
    taker.refused = {"1"}
    gate = threading.Event()

    def open() -> Taker:
        gate.wait(10)
        return taker

    box = Outbox(open)
    for number in range(3):
        box.put(item(str(number)))
    gate.set()
    assert box.flush(10)
    assert sorted(taker.taken) == ["0", "2"]
    assert "1 was refused" in caplog.text


def test_a_bounded_number_waits_and_the_program_never_does(
    taker: Taker, caplog: pytest.LogCaptureFixture
) -> None:
    gate = threading.Event()

    def open() -> Taker:
        gate.wait(10)
        return taker

    box = Outbox(open)
    sent = [box.put(item(str(number))) for number in range(MOST_WAITING + 300)]
    assert not all(sent)
    assert sum(sent) <= MOST_WAITING + module.BATCH
    assert caplog.text.count("more are dropped") == 1
    assert not box.flush(0.01)
    gate.set()
    assert box.flush(10)
    assert len(taker.taken) == sum(sent)


def test_another_setting_opens_another_target(taker: Taker) -> None:
    setting, other = ["first"], Taker()
    box = Outbox(lambda: taker if setting == ["first"] else other, lambda: list(setting))
    box.put(item("a"))
    assert box.flush(10)
    setting[:] = ["second"]
    box.put(item("b"))
    assert box.flush(10)
    assert (taker.taken, taker.closed, other.taken) == (["a"], True, ["b"])


def run(folder: Path, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RATCHET_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**kept, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def with_store(project: Path, sqlite_template: Path) -> Path:
    """The project with an empty store."""
    (project / ".ratchet").mkdir()
    shutil.copyfile(sqlite_template, project / ".ratchet" / "ratchet.db")
    return project


def test_what_is_said_last_is_sent_when_the_program_ends(with_store: Path) -> None:
    project = with_store
    done = run(project, "import ratchet; ratchet.feedback(thumbs='down', trace_id='t')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with Store.open(f"sqlite:///{project}/.ratchet/ratchet.db") as store:
        ((found,), _) = store.feedback.list(trace_id="t")
    assert found.value == 0.0


def test_a_server_that_is_away_holds_the_end_of_a_program_up_for_a_bounded_time(
    project: Path,
) -> None:
    code = (
        "import time, ratchet\n"
        "from ratchet.observe import outbox as f\n"
        "f.EXIT_S = 0.2\n"
        "begun = time.perf_counter()\n"
        "ratchet.feedback(1.0, trace_id='t')\n"
        "assert time.perf_counter() - begun < 1.0\n"
    )
    done = run(project, code, RATCHET_URL="http://127.0.0.1:9")
    assert done.returncode == 0
    assert "could not be sent" in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_process_sends_its_own_and_not_its_parents(with_store: Path) -> None:
    project = with_store
    code = (
        "import os, ratchet\n"
        "from ratchet.observe.feedback import flush\n"
        "ratchet.feedback(1.0, trace_id='t', id='parent')\n"
        "pid = os.fork()\n"
        "ratchet.feedback(1.0, trace_id='t', id='child' if pid == 0 else 'after')\n"
        "assert flush(20)\n"
        "os._exit(0) if pid == 0 else os.waitpid(pid, 0)\n"
    )
    done = run(project, code)
    assert done.returncode == 0, done.stderr
    with Store.open(f"sqlite:///{project}/.ratchet/ratchet.db") as store:
        found, _ = store.feedback.list(trace_id="t")
    assert sorted(one.id for one in found) == ["after", "child", "parent"]
