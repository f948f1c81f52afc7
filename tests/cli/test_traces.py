"""`ratchet traces`, `show`, `conversations`, `feedback`: what people see of what ran live."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.cli import traces as listing
from ratchet.cli.app import run
from ratchet.cli.console import out
from ratchet.cli.trace_tree import MAX_DEPTH, branches, forest, tree_lines
from ratchet.cli.traces import TraceFollower
from ratchet.store import Store
from ratchet.store import traces as stored_traces
from ratchet.types import Feedback, Span, SpanRecord
from ratchet.types.trace import Trace
from tests.serving import RunningServer

SECOND = 1_000_000_000
NOW = 1_772_000_000.0


def span(
    id: str, parent: str | None = None, *, trace: str = "abcd" + "0" * 28, **more: Any
) -> Span:
    given = {
        "trace_id": trace,
        "span_id": id,
        "parent_id": parent,
        "name": "step",
        "start_ns": int(NOW) * SECOND,
        "end_ns": int(NOW) * SECOND + SECOND // 4,
        **more,
    }
    return Span(**given)


def call(id: str, parent: str, words: str = "hi", **more: Any) -> Span:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.input_tokens": 12_000,
        "gen_ai.usage.output_tokens": 50,
        "ratchet.cost_usd": 0.25,
        "gen_ai.input.messages": json.dumps(
            [{"role": "user", "parts": [{"type": "text", "content": words}]}]
        ),
        "gen_ai.output.messages": json.dumps(
            [
                {
                    "role": "assistant",
                    "parts": [{"type": "tool_call", "name": "find", "arguments": {"city": "Rome"}}],
                }
            ]
        ),
        **more.pop("attributes", {}),
    }
    return span(id, parent, name="chat", attributes=attributes, **more)


@pytest.fixture
def url(sqlite_url: str) -> str:
    """A store with a trace of an agent that fails in its tool."""
    with Store.open(sqlite_url) as store:
        spans = [
            span("1", None, name="answer", attributes={"session.id": "chat-1"}),
            call("2", "1"),
            span("3", "1", name="find", status="error", message="[no] rooms"),
        ]
        store.spans.put([SpanRecord(span=each, agent="desk") for each in spans])
    return sqlite_url


Output = pytest.CaptureFixture[str]


def ratchet(capsys: Output, *arguments: str) -> str:
    """What a command prints when it succeeds."""
    assert run(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def names(spans: list[Span], **options: Any) -> list[str]:
    """The tree as text: branches and names, or the words about folds."""
    return [
        branches(line.last) + (line.span.name if line.span else line.note)
        for line in tree_lines(forest(spans), **options)
    ]


def test_a_tree_shows_who_called_whom_in_order() -> None:
    spans = [
        span("1", None, name="a"),
        span("2", "1", name="b"),
        span("3", "2", name="c"),
        span("4", "1", name="d"),
        span("5", None, name="e"),
    ]
    assert names(spans) == ["├─ a", "│  ├─ b", "│  │  └─ c", "│  └─ d", "└─ e"]


def test_what_comes_again_and_again_is_folded_but_for_failures() -> None:
    spans = [span("r", None, name="root")]
    for number in range(300):
        status = "error" if number in (50, 100, 150, 200) else "ok"
        spans.append(span(f"t{number}", "r", name="find", status=status))
        if number == 280:
            spans.append(span("below", f"t{number}", name="deep"))
    shown = names(spans)
    assert shown[1:6] == ["   ├─ find"] * 5
    assert shown[6:9] == ["   ├─ find"] * 3
    assert shown[9] == "   └─ … 292 more find, 73.00 s in total, 1 failed, 1 step below them"
    assert len(shown) == 10
    assert len(names(spans, folded=False)) == 302
    # A sixth one is shown rather than a word about it.
    assert len(names(spans[:7])) == 7


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([("1", "missing")], {"1": "its parent is missing"}),
        ([("1", "1")], {"1": "it is its own parent"}),
        ([("1", "2"), ("2", "1")], {"1": "it is its own ancestor", "2": ""}),
        ([("1", None), ("1", None), ("2", "1")], {"1": "duplicate id", "2": ""}),
        (
            [("r", None), ("1", "3"), ("2", "1"), ("3", "2"), ("4", "3")],
            {"1": "it is its own ancestor"},
        ),
    ],
)
def test_parents_that_make_no_sense_lose_no_span(
    spans: list[tuple[str, str | None]], expected: dict[str, str]
) -> None:
    made = [span(id, parent) for id, parent in spans]
    found = [(line.span, line.note) for line in tree_lines(forest(made)) if line.span]
    assert len(found) == len(made)
    notes = {each.span_id: note for each, note in found}
    assert {id: notes[id] for id in expected} == expected


@given(
    parents=st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 12)), max_size=30),
    folded=st.booleans(),
)
def test_every_span_is_shown_once_or_counted(parents: list[tuple[int, int]], folded: bool) -> None:
    spans = [
        span(str(id), None if parent < 0 else str(parent), name=f"n{id % 2}")
        for id, parent in parents
    ]
    shown = [line for line in tree_lines(forest(spans), folded=folded) if line.span]
    assert len({id(line.span) for line in shown}) == len(shown)
    if folded:
        assert len(shown) <= len(spans)
    else:
        assert len(shown) == len(spans)


def test_a_chain_and_a_ring_of_ten_thousand_are_shown(capsys: Output, sqlite_url: str) -> None:
    chain = [span(str(n), str(n - 1) if n else None, start_ns=n) for n in range(10_000)]
    shown = names(chain)
    assert len(shown) == MAX_DEPTH + 1
    assert shown[-1].strip() == f"└─ … {10_000 - MAX_DEPTH} more steps below"
    assert max(map(len, names(chain, folded=False))) < 200
    ring = [*chain[1:], span("0", "9999", start_ns=10_001)]
    assert len(names(ring, folded=False)) == 10_000
    with Store.open(sqlite_url) as store:
        store.spans.put([SpanRecord(span=each, agent="desk") for each in chain])
    assert "9960 more steps" in ratchet(capsys, "show", "abcd", "--store", sqlite_url)


def test_a_trace_is_shown_with_times_tokens_costs_and_errors(capsys: Output, url: str) -> None:
    shown = ratchet(capsys, "show", "abcd", "--store", url)
    head, facts, *tree = shown.splitlines()
    assert head.startswith(f"Trace abcd{'0' * 28} of desk, ")
    assert facts == (
        "250 ms, 3 spans, 12.0k→50 tokens, $0.2500, gpt-4o-mini, conversation chat-1, 1 failed"
    )
    assert tree == [
        "└─ answer  250 ms",
        "   ├─ chat  250 ms  gpt-4o-mini  12.0k→50 tok  $0.2500",
        "   └─ find  250 ms  [no] rooms",
    ]


def test_json_is_for_machines(capsys: Output, url: str) -> None:
    shown = json.loads(ratchet(capsys, "show", "abcd", "--json", "--store", url))
    assert (shown["kind"], shown["trace"]["spans"], len(shown["spans"])) == ("trace", 3, 3)
    listed = json.loads(ratchet(capsys, "traces", "--json", "--store", url))
    assert ([t["name"] for t in listed["traces"]], listed["more"]) == (["answer"], False)
    held = json.loads(ratchet(capsys, "show", "chat-1", "--json", "--store", url))
    assert (held["kind"], held["conversation"]["turns"]) == ("conversation", 1)


def test_traces_are_listed_and_filtered(capsys: Output, url: str) -> None:
    with Store.open(url) as store:
        other = span("9", None, trace="f" * 32, name="other", start_ns=SECOND, end_ns=9 * SECOND)
        store.spans.put([SpanRecord(span=other, agent="second")])
    listed = ratchet(capsys, "traces", "--store", url)
    assert listed.splitlines()[0].split()[-1] == "cost"
    assert "answer" in listed
    assert "other" in listed
    for arguments, expected in (
        (["--agent", "second"], "other"),
        (["--errors"], "answer"),
        (["--since", "2020-01-01"], "answer"),
        (["--until", "2020-01-01"], "other"),
        (["--min-duration", "5"], "other"),
        (["--min-cost", "0.1"], "answer"),
        (["--name", "OTH"], "other"),
        (["--conversation", "chat-1"], "answer"),
        (["--slow", "-n", "1"], "other"),
        (["--sort", "costliest", "-n", "1"], "answer"),
    ):
        found = json.loads(ratchet(capsys, "traces", "--json", "--store", url, *arguments))
        assert [trace["name"] for trace in found["traces"]] == [expected], arguments
    assert "No trace matches" in ratchet(capsys, "traces", "--agent", "nobody", "--store", url)


def test_an_order_goes_over_all_pages_and_says_how_far_it_looked_when_there_are_more(
    capsys: Output, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        stored_traces, "MAX_TRACES_EXAMINED", 200
    )  # as many as are summed up at once
    took = {f"{n:032x}": (900 if n == 0 else n * 7 % 500) for n in range(900)}
    with Store.open(sqlite_url) as store:
        store.spans.put(
            [
                SpanRecord(
                    span=span("1", None, trace=id, start_ns=n * SECOND, end_ns=(n + s) * SECOND),
                    agent="bot",
                )
                for n, (id, s) in enumerate(took.items())
            ]
        )
    slowest = max(took, key=lambda id: took[id])
    arguments = ("traces", "--slow", "-n", "1", "--store", sqlite_url)
    found = json.loads(ratchet(capsys, *arguments, "--json"))
    assert [trace["trace_id"] for trace in found["traces"]] == [slowest]
    assert (found["more"], found["looked_back_to_ns"]) == (False, None)
    monkeypatch.setattr(listing, "MAX_PAGES", 2)
    found = json.loads(ratchet(capsys, *arguments, "--json"))
    assert found["looked_back_to_ns"] == 500 * SECOND
    assert run([*arguments]) == 0
    said = capsys.readouterr().err
    assert "Searched back to" in said
    until = said.split("--until ")[1].split()[0]
    rest = json.loads(ratchet(capsys, *arguments, "--json", "--until", until))
    assert rest["looked_back_to_ns"] == 101 * SECOND, "from there on, and nothing left out"


@pytest.mark.parametrize(
    "arguments",
    [
        ["traces", "--since", "yesterday"],
        ["traces", "--since", "99999999999d"],
        ["traces", "--sort", "worst"],
        ["traces", "--slow", "--sort", "costliest"],
        ["traces", "--follow", "--slow"],
        ["traces", "--limit", "0"],
        ["traces", "--server", "http://127.0.0.1:9"],
        ["show", "ffff"],
        ["show", "f"],
        ["feedback", "ffff", "--thumbs", "up"],
        ["feedback", "abcd"],
        ["feedback", "abcd", "--rating", "2"],
        ["feedback", "abcd", "--thumbs", "up", "--rating", "1"],
    ],
)
def test_what_cannot_be_done_is_said_without_a_traceback(
    capsys: Output, url: str, arguments: list[str]
) -> None:
    assert run([*arguments, "--store", url]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_what_was_recorded_cannot_drive_a_terminal(capsys: Output, sqlite_url: str) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\r"
    attributes = {"session.id": evil, "gen_ai.agent.name": evil}
    root = span("1", None, name=evil, message=evil, status="error", attributes=attributes)
    with Store.open(sqlite_url) as store:
        spans = [root, call("2", "1", evil, attributes={"session.id": evil, "ratchet.input": evil})]
        store.spans.put([SpanRecord(span=each, agent=evil) for each in spans])
        store.feedback.add(
            [Feedback(id="f", kind="comment", comment=evil, span_id=evil, trace_id=root.trace_id)],
            1.0,
        )
    where = ["--store", sqlite_url]
    for command in (["traces"], ["show", "abcd", "--full"], ["conversations"], ["show", evil]):
        shown = ratchet(capsys, *command, *where)
        assert shown
        assert all(character.isprintable() or character == "\n" for character in shown), command


def test_a_conversation_is_shown_as_a_log_with_roles(capsys: Output, url: str) -> None:
    listed = ratchet(capsys, "conversations", "--store", url)
    assert "chat-1" in listed
    assert "desk" in listed
    for id in ("chat-1", "chat"):
        shown = ratchet(capsys, "show", id, "--store", url).splitlines()
        assert shown[0].startswith("Conversation chat-1 with desk, 1 trace,")
        assert [line.split(" ", 1)[1] for line in shown[1:]] == [
            "user hi",
            "assistant → find(city=Rome)",
        ]


def test_feedback_is_told_and_shown(capsys: Output, url: str) -> None:
    where = ["--store", url]
    told = ratchet(capsys, "feedback", "abcd", "--thumbs", "down", "--comment", "No!", *where)
    assert told.startswith("Recorded for trace abcd")
    ratchet(capsys, "feedback", "abcd", "--correction", '{"rooms": 3}', *where)
    ratchet(capsys, "feedback", "chat-1", "--rating", "0.75", *where)
    with Store.open(url) as store:
        found, _ = store.feedback.list()
    assert [(f.kind, f.value, f.content, f.conversation_id) for f in found] == [
        ("rating", 0.75, None, "chat-1"),
        ("correction", None, {"rooms": 3}, ""),
        ("thumbs", 0.0, None, ""),
    ]
    shown = ratchet(capsys, "show", "abcd", *where)
    assert "feedback thumbs down 'No!'" in shown
    assert "down" in ratchet(capsys, "traces", "--feedback", *where)


def test_a_server_is_looked_at_in_the_same_way(
    capsys: Output, serving: Callable[..., RunningServer], url: str
) -> None:
    where = ["--server", serving(url).url]
    assert "answer" in ratchet(capsys, "traces", *where)
    assert "[no] rooms" in ratchet(capsys, "show", "abcd", *where)
    assert "user hi" in ratchet(capsys, "show", "chat-1", *where)
    assert "chat-1" in ratchet(capsys, "conversations", *where)
    ratchet(capsys, "feedback", "abcd", "--thumbs", "up", *where)
    assert "thumbs up" in ratchet(capsys, "show", "abcd", *where)
    assert run(["show", "ffff", *where]) == 2
    assert f"Nothing in {where[1]}" in capsys.readouterr().err


def test_without_a_place_it_is_where_init_would_send_to(
    capsys: Output,
    serving: Callable[..., RunningServer],
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RATCHET_URL", serving(url).url)
    assert "answer" in ratchet(capsys, "traces")
    assert "answer" in ratchet(capsys, "show", "abcd")
    monkeypatch.delenv("RATCHET_URL")
    monkeypatch.setenv("RATCHET_STORE", url)
    assert "answer" in ratchet(capsys, "traces")
    assert "answer" in ratchet(capsys, "show", "abcd")


def test_new_traces_are_shown_as_they_come_until_ctrl_c(sqlite_url: str) -> None:
    command = [sys.executable, "-m", "ratchet", "traces", "--follow", "--store", sqlite_url]
    with Store.open(sqlite_url) as store:
        store.spans.put([SpanRecord(span=span("0", None, trace="a" * 32, name="old"), agent="x")])
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert "Waiting" in process.stderr.readline()
            child = span("2", "1", name="find")
            store.spans.put([SpanRecord(span=child, agent="desk")])
            store.spans.put([SpanRecord(span=span("1", None, name="answer"), agent="desk")])
            line = process.stdout.readline()
            assert "abcd0000" in line
            assert "answer" in line
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=30)
            assert (process.returncode, rest, errors) == (0, "", "")


def trace(id: str, **fields: Any) -> Trace:
    given = {"trace_id": id, "name": "n", "agent": "a", "start_ns": 1, "duration_s": 0.0}
    return Trace(**{**given, "spans": 1, "errors": 0, **fields})


def test_a_trace_is_shown_once_when_its_root_is_there_or_after_a_while() -> None:
    following = TraceFollower(root_wait_s=10.0)
    following.skip([trace("before")])
    assert following.ready([trace("before"), trace("a")], 0.0) == [trace("a")]
    assert following.ready([trace("a", spans=2), trace("b", rootless=True)], 1.0) == []
    whole = trace("b", spans=5)
    assert following.ready([whole], 2.0) == [whole]
    late = trace("c", rootless=True)
    assert following.ready([late], 3.0) == []
    assert following.ready([trace("c", rootless=True, spans=4)], 12.0) == []
    assert following.ready([], 13.0) == [trace("c", rootless=True, spans=4)]
    assert following.ready([late], 30.0) == []


def test_to_look_makes_nothing_and_says_where_it_looked(
    capsys: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RATCHET_URL", "RATCHET_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    place = str(Path(".ratchet", "ratchet.db"))
    for command in (["traces"], ["traces", "--errors"], ["conversations"]):
        assert f"in {place}." in ratchet(capsys, *command)
    assert json.loads(ratchet(capsys, "traces", "--json"))["traces"] == []
    for command in (["show", "abcd"], ["feedback", "abcd", "--thumbs", "up"]):
        assert run(command) == 2
        assert place in capsys.readouterr().err
    absent = f"sqlite:///{tmp_path / 'other.db'}"
    assert "other.db" in ratchet(capsys, "traces", "--store", absent)
    assert run(["traces", "-C", "nowhere"]) == 2
    assert "no folder nowhere" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("width", [80, 60, 40])
def test_a_narrow_terminal_leaves_columns_out_and_cuts_no_number(
    capsys: Output, url: str, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr(out, "_force_terminal", True)
    monkeypatch.setattr(out, "_color_system", None)
    monkeypatch.setattr(out, "_width", width)
    ratchet(capsys, "feedback", "abcd", "--thumbs", "down", "--store", url)
    heading, *rows = ratchet(capsys, "traces", "--store", url).splitlines()
    heading = re.sub("\x1b[^m]*m", "", heading)
    known = {"started", "trace", "agent", "name", "input", "user", "model", "took", "spans"}
    known |= {"errors", "tokens", "cost", "feedback"}
    assert set(heading.split()) <= known, "no word of it is cut"
    assert {"trace", "name", "took"} <= set(heading.split())
    assert all("abcd0000" in row for row in rows)


def test_feedback_is_about_a_step_that_is_there(capsys: Output, url: str) -> None:
    where = ["--store", url]
    for command, words in (
        (["abcd", "--span", "zzz"], "No step of the trace has an id"),
        (["chat-1", "--span", "1"], "--span needs a trace"),
    ):
        assert run(["feedback", *command, "--thumbs", "up", *where]) == 2
        assert words in capsys.readouterr().err
    with Store.open(url) as store:
        detail = store.traces.get("abcd" + "0" * 28)
        assert detail is not None
        step = detail.spans[-1].span_id
    assert step in ratchet(capsys, "show", "abcd", "--full", *where), "where people find it"
    ratchet(capsys, "feedback", "abcd", "--span", step, "--thumbs", "up", *where)
    with Store.open(url) as store:
        assert store.feedback.list()[0][0].span_id == step


def test_a_terminal_that_knows_few_letters_gets_others(tmp_path: Path, url: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "ratchet", "show", "abcd", "--store", url],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"answer" in ran.stdout
