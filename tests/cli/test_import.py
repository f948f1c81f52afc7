"""`ratchet import`, as a person and as a script use it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet.cli.app import run
from ratchet.store import Store
from tests import interpreters
from tests.serving import RunningServer

Ratchet = Callable[..., tuple[int, str, str]]


def talk(number: int, **more: Any) -> dict[str, Any]:
    asked = {"role": "user", "content": f"question {number}"}
    return {"messages": [asked, {"role": "assistant", "content": f"answer {number}"}], **more}


def lines(folder: Path, *values: Any, name: str = "talks.jsonl") -> Path:
    path = folder / name
    path.write_text(
        "".join((value if isinstance(value, str) else json.dumps(value)) + "\n" for value in values)
    )
    return path


@pytest.fixture
def ratchet(
    sqlite_url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Ratchet:
    """Runs `ratchet import` into a store; gives the exit code and both outputs."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path, to: tuple[str, ...] = ("--store", sqlite_url)) -> Any:
        capsys.readouterr()
        code = run(["import", *map(str, arguments), *to])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_conversations_are_stored_with_a_report_of_what_was_left_out(
    ratchet: Ratchet, disk: Store, tmp_path: Path
) -> None:
    file = lines(tmp_path, talk(1), '{"broken', talk(2), {"foo": 1}, {"messages": []})
    code, out, _ = ratchet(file, "--agent", "support")
    assert code == 0
    assert "talks.jsonl (openai): 2 traces, 4 spans" in out
    assert "new in the store: 4 spans" in out
    assert "skipped: 3" in out
    assert "line 2: not JSON" in out
    assert "line 4: it does not look like any of the formats: its keys are ['foo']" in out
    assert "line 5:" in out
    page, _ = disk.spans.live("support")
    assert len(page) == 4


def test_the_same_again_is_stored_once(ratchet: Ratchet, disk: Store, tmp_path: Path) -> None:
    file = lines(tmp_path, talk(1, reward=1), talk(2))
    ratchet(file)
    again = lines(tmp_path, talk(2), talk(1, reward=1), talk(3), name="other.jsonl")
    code, out, _ = ratchet(file, again, "--json")
    assert code == 0
    first, second = json.loads(out)["files"]
    assert first["new"] == {}
    assert second["new"] == {"spans": 2}
    assert disk.rollouts.counts() == {"succeeded": 1}


def test_rewards_become_rollouts_that_learning_can_use(
    ratchet: Ratchet, disk: Store, tmp_path: Path
) -> None:
    group = {"task_id": "t1", "trajectories": [talk(1, reward=0.5), talk(1, reward=1.0)]}
    code, out, _ = ratchet(lines(tmp_path, group), "--agent", "solver")
    assert code == 0
    assert "2 rollouts, 2 scores" in out
    page, _ = disk.rollouts.list(queue="solver", purpose="import/solver")
    assert {(rollout.input, rollout.output) for rollout in page} == {("question 1", "answer 1")}
    (mean,) = disk.scores.means("import/")
    assert (mean.evaluator, mean.mean, mean.n) == ("reward", 0.75, 2)
    assert len(disk.spans.of(page[0].id)) == 2


def test_what_is_imported_is_redacted_by_the_rules_of_the_project(
    ratchet: Ratchet, disk: Store, tmp_path: Path, sqlite_url: str
) -> None:
    (tmp_path / "ratchet.toml").write_text('[redaction]\npatterns = { staff = "EMP-[0-9]{6}" }\n')
    secret = {"role": "user", "content": "I am EMP-123456, ann@example.com"}
    answer = {"role": "assistant", "content": "Hello ann@example.com"}
    file = lines(
        tmp_path, {"messages": [secret, answer], "reward": 1}, {"messages": [secret, answer]}
    )
    assert ratchet(file)[0] == 0
    page, _ = disk.rollouts.list()
    assert page[0].input == "I am [redacted:staff], [redacted:email]"
    raw = Path(sqlite_url.removeprefix("sqlite:///")).read_bytes()
    wal = Path(sqlite_url.removeprefix("sqlite:///") + "-wal")
    raw += wal.read_bytes() if wal.exists() else b""
    assert b"ann@example.com" not in raw
    assert b"EMP-123456" not in raw


def test_otlp_in_json_is_read_as_the_server_reads_it(
    ratchet: Ratchet, disk: Store, tmp_path: Path
) -> None:
    span = {
        "traceId": "1" * 32,
        "spanId": "2" * 16,
        "name": "chat",
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "attributes": [{"key": "session.id", "value": {"stringValue": "c1"}}],
    }
    service = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    request = {
        "resourceSpans": [
            {"resource": service, "scopeSpans": [{"spans": [span, {**span, "spanId": "x"}]}]}
        ]
    }
    whole = tmp_path / "request.json"
    whole.write_text(json.dumps(request, indent=2))
    file = lines(tmp_path, request, {"resourceSpans": []}, {"resourceSpans": 3}, name="spans.jsonl")
    code, out, _ = ratchet(whole, file, "--json")
    assert code == 0
    first, second = json.loads(out)["files"]
    assert (first["formats"], first["new"], first["skipped"]) == ({"otlp": 1}, {"spans": 1}, 1)
    assert (second["new"], second["skipped"]) == ({}, 3)
    (stored,), _ = disk.spans.live("shop")
    assert stored.attributes["session.id"] == "c1"


def test_a_dry_run_stores_nothing_and_leaves_nothing_behind(
    ratchet: Ratchet, disk: Store, tmp_path: Path
) -> None:
    file = lines(tmp_path, talk(1))
    code, out, _ = ratchet(file, "--dry-run", to=())
    assert code == 0
    assert "1 trace, 2 spans" in out
    assert "Nothing was stored" in out
    assert not (tmp_path / ".ratchet").exists()
    assert disk.spans.agents() == []


def test_it_goes_to_a_server_where_rewards_are_feedback(
    ratchet: Ratchet, server: RunningServer, tmp_path: Path
) -> None:
    file = lines(tmp_path, talk(1, reward=0.5), talk(2))
    code, out, _ = ratchet(file, "--json", to=("--server", server.url))
    assert code == 0
    assert json.loads(out)["files"][0]["read"] == {"spans": 4, "feedback": 1, "traces": 2}
    with server.client() as client:
        page = client.get("/v1/spans", params={"agent": "imported"}).json()["spans"]
        assert len(page) == 4
        assert client.get("/v1/feedback").json()["feedback"][0]["value"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["talks.jsonl", "--format", "excel"], "There is no format 'excel'."),
        (["gone.jsonl"], "There is no file gone.jsonl."),
        (["bad.jsonl"], "Nothing was imported."),
        (["talks.jsonl", "--format", "langfuse"], "Nothing was imported."),
        (["talks.jsonl", "--server", "http://127.0.0.1:1"], "either --store or --server"),
    ],
)
def test_it_says_when_nothing_was_imported(
    ratchet: Ratchet, tmp_path: Path, arguments: list[str], said: str
) -> None:
    lines(tmp_path, talk(1))
    lines(tmp_path, "nonsense", '{"a": 1}', name="bad.jsonl")
    code, _, err = ratchet(*arguments)
    assert code == 2
    assert said in err


def test_a_run_that_was_killed_goes_on_where_it_stood(tmp_path: Path, sqlite_url: str) -> None:
    file = tmp_path / "many.jsonl"
    with file.open("w") as out:
        for number in range(6_000):
            out.write(json.dumps(talk(number, pad="x" * 500)) + "\n")
    command = [
        sys.executable,
        "-m",
        "ratchet",
        "import",
        str(file),
        "--json",
        "--store",
        sqlite_url,
    ]
    marks = tmp_path / ".ratchet" / "imports.json"
    with interpreters.Interpreter(command, cwd=tmp_path, stdout=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while not marks.exists() and process.poll() is None and time.monotonic() < deadline:
            os.sched_yield()
        process.send_signal(signal.SIGKILL)
        process.wait()
    stood = next(iter(json.loads(marks.read_text()).values()))["values"]
    assert 0 < stood < 6_000
    with Store.open(sqlite_url) as store:
        before = len(store.spans.live("imported", 20_000)[0])
    assert before >= 2 * stood
    done = interpreters.run(command, cwd=tmp_path, check=True)
    (report,) = json.loads(done.stdout)["files"]
    assert report["begun_at"] >= stood
    with Store.open(sqlite_url) as store:
        assert len(store.spans.live("imported", 20_000)[0]) == 12_000
    assert json.loads(marks.read_text()) == {}


def test_a_bookmark_whose_store_is_gone_holds_no_more(
    ratchet: Ratchet, disk: Store, tmp_path: Path, sqlite_url: str
) -> None:
    file = lines(tmp_path, talk(1), talk(2))
    status = file.stat()
    key = f"{file.resolve()} {status.st_size} {status.st_mtime_ns} {sqlite_url} auto "
    (tmp_path / ".ratchet").mkdir()
    marks = tmp_path / ".ratchet" / "imports.json"
    for found in ({"values": 1, "trace": "1" * 32}, {"values": -3}, "nonsense", None):
        marks.write_text(json.dumps({key: found}))
        code, out, _ = ratchet(file, "--json")
        assert code == 0
        assert json.loads(out)["files"][0]["begun_at"] == 0
    marks.write_text("broken")
    assert ratchet(file)[0] == 0
    assert len(disk.spans.live("imported")[0]) == 4


def test_a_folder_and_a_pipe_are_named_as_what_they_are(ratchet: Ratchet, tmp_path: Path) -> None:
    code, _, err = ratchet(tmp_path)
    assert code == 2
    assert "is a folder" in err
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code, _, err = ratchet(pipe)
    assert code == 2
    assert "is not a regular file" in err


def test_ctrl_c_says_that_the_same_command_goes_on(tmp_path: Path, sqlite_url: str) -> None:
    file = tmp_path / "many.jsonl"
    with file.open("w") as out:
        out.writelines(json.dumps(talk(number)) + "\n" for number in range(60_000))
    running = interpreters.Interpreter(
        [sys.executable, "-m", "ratchet", "import", str(file), "--store", sqlite_url],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
    )
    bookmarks = tmp_path / ".ratchet" / "imports.json"
    until = time.monotonic() + 60
    while not bookmarks.exists() and time.monotonic() < until:
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "run the same command again to continue" in " ".join(err.split())
    assert "Traceback" not in err


def test_the_keys_of_messages_and_reward_may_be_named_also_in_a_wrapper(
    ratchet: Ratchet, disk: Store, tmp_path: Path
) -> None:
    wrong = [{"role": "assistant", "content": "not this"}] * 5
    one = {"drafts": wrong, "result": {"said": talk(7)["messages"]}, "info": {"won": 0.25}}
    text = {**one, "result": {"said": json.dumps(talk(8)["messages"])}}
    file = lines(tmp_path, {"data": [one, text]})
    code, out, _ = ratchet(file, "--messages", "result.said", "--reward", "info.won")
    assert code == 0, out
    rollouts = disk.rollouts.list()[0]
    assert {rollout.output for rollout in rollouts} == {"answer 7", "answer 8"}
    scores = disk.scores.of([rollout.id for rollout in rollouts])
    assert [score.value for each in scores.values() for score in each] == [0.25, 0.25]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"said": [], "reward": 1}, "it has no field 'talk': its keys are ['reward', 'said']"),
        ({"talk": "words", "reward": 1}, "its field 'talk' is not a list of messages"),
        ({"talk": [{"a": 1}], "reward": 1}, "the nearest is trajectories, with a list of messages"),
    ],
)
def test_a_named_key_that_does_not_fit_is_reported_with_its_name(
    ratchet: Ratchet, tmp_path: Path, value: Any, why: str
) -> None:
    code, out, _ = ratchet(lines(tmp_path, value), "--messages", "talk")
    assert code == 2
    assert why in out


@pytest.mark.parametrize(
    ("value", "near"),
    [
        ({"score": 1, "turns": [{"said": "hi"}]}, "trajectories, with a list of messages"),
        ({"observations": [], "name": "n"}, "langfuse, with id, and either traceId"),
        ({"span_kind": "LLM"}, "phoenix, with start_time"),
        ({"request_id": "r"}, "mlflow, with either info with trace_id"),
        ({"scopeSpans": []}, "otlp, with resourceSpans"),
        ({"messages": 3}, "openai, with a list of messages"),
    ],
)
def test_a_refused_value_is_told_the_nearest_format(
    ratchet: Ratchet, tmp_path: Path, value: Any, near: str
) -> None:
    code, out, _ = ratchet(lines(tmp_path, value))
    assert code == 2
    assert f"; the nearest is {near}" in out


def test_an_imported_rollout_is_shown_with_its_trace_by_their_common_id(
    ratchet: Ratchet,
    disk: Store,
    sqlite_url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ratchet(lines(tmp_path, talk(1, reward=1)))
    (rollout,) = disk.rollouts.list()[0]
    assert disk.traces.get(rollout.id) is not None
    for identity in (rollout.id, rollout.id[:10]):
        capsys.readouterr()
        assert run(["show", identity, "--store", sqlite_url]) == 0
        out = capsys.readouterr().out
        assert f"Rollout {rollout.id[:8]}" in out
        assert "invoke_agent imported" in out
        assert "question 1" in out
