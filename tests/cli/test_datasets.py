"""`ratchet datasets`, as a person and as a script use it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet.cli.app import run
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from ratchet.types import Feedback, Score, Span, SpanRecord
from tests.cli.conftest import MakeProject
from tests.evaluate.conftest import ended
from tests.serving import RunningServer

Ratchet = Callable[..., tuple[int, str, str]]
SECOND = 1_000_000_000
TOPICS = ["parcels", "refunds", "invoices", "lamps", "islands", "passwords", "bicycles", "gardens"]


@pytest.fixture
def ratchet(
    sqlite_url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Ratchet:
    """Runs `ratchet datasets` on a store; gives the exit code and both outputs."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["datasets", *map(str, arguments), "--store", sqlite_url])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture
def ratchet_json(ratchet: Ratchet) -> Callable[..., dict[str, Any]]:
    """Runs `ratchet datasets` with --json and reads what it prints."""

    def call(*arguments: str | Path) -> dict[str, Any]:
        code, out, err = ratchet(*arguments, "--json")
        assert code == 0, err
        found: dict[str, Any] = json.loads(out)
        return found

    return call


RatchetJson = Callable[..., dict[str, Any]]


def traces(url: str, *questions: str, begin: int = 0) -> None:
    """Record one trace per question; those with an even number get a correction."""
    with Store.open(url) as store:
        for n, question in enumerate(questions, begin):
            span = Span(
                trace_id=f"{n:032x}",
                span_id=f"{n + 1:016x}",
                name="answer",
                start_ns=n * SECOND,
                end_ns=(n + 1) * SECOND,
                attributes={"ratchet.input": json.dumps(question)},
            )
            store.spans.put([SpanRecord(span=span, agent="support")])
            if n % 2 == 0:
                right = Feedback(
                    id=f"f{n}", kind="correction", trace_id=f"{n:032x}", content=f"answer {n}"
                )
                store.feedback.add([right], 1.0)


def tasks(path: Path, *values: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def test_traffic_becomes_a_dataset_that_grows(
    ratchet: Ratchet, ratchet_json: RatchetJson, sqlite_url: str
) -> None:
    traces(sqlite_url, *(f"what do you know about {topic} today" for topic in TOPICS[:4]))
    first = ratchet_json("capture", "support", "--agent", "support")
    assert first["examined"] == 4
    assert {one["expected"] for one in first["tasks"]} == {"answer 0", None, "answer 2"}
    traces(sqlite_url, *(f"what do you know about {topic} today" for topic in TOPICS), begin=11)
    code, out, _ = ratchet("capture", "support")
    assert code == 0
    assert "12 traces read: 4 tasks added, 2 expected answers found for its tasks" in out
    (listed,) = ratchet_json("list")["datasets"]
    assert (listed["name"], listed["tasks"], listed["versions"]) == ("support", 8, 2)
    assert listed["reason"] == "4 tasks captured and 2 expected answers captured from traces"
    shown = ratchet_json("show", f"support@{first['version'][:8]}")
    assert len(shown["tasks"]) == 4
    difference = ratchet_json("diff", "support")
    assert (len(difference["added"]), len(difference["changed"])) == (4, 2)
    assert difference["changed"][0]["fields"] == ["expected"]
    code, out, _ = ratchet("diff", "support")
    assert "4 added, 0 removed, 2 changed, 2 the same" in out
    assert "expected: open → answer 12" in out
    code, out, _ = ratchet("show", "support")
    assert "captured: correction" in out


def test_a_file_is_imported_exported_and_imported_again_as_it_was(
    ratchet: Ratchet, ratchet_json: RatchetJson, tmp_path: Path
) -> None:
    file = tasks(
        tmp_path / "faq.jsonl",
        *({"id": t, "q": f"tell me about {t}", "a": [t], "k": n} for n, t in enumerate(TOPICS)),
    )
    keys = ("--input", "q", "--expected", "a")
    first = ratchet_json("import", "faq", file, *keys)
    assert (first["added"], first["bad"]) == (8, [])
    assert ratchet_json("import", "faq", file, *keys)["same"] == 8
    assert ratchet_json("list")["datasets"][0]["versions"] == 1
    for name in ("out.jsonl", "out.json", "out.csv", "out.parquet"):
        code, _, err = ratchet("export", "faq", name)
        assert code == 0, err
        copy = name.replace(".", "-")
        assert ratchet_json("import", copy, name)["version"] == first["version"]
    code, _, err = ratchet("export", "faq", "folder", "--format", "huggingface")
    assert code == 0, err
    assert ratchet_json("import", "folder", "folder")["version"] == first["version"]
    code, _, err = ratchet("export", "faq", "out.csv")
    assert code == 2
    assert "out.csv exists already." in err


def test_bad_records_stop_an_import_unless_they_are_skipped(
    ratchet: Ratchet, ratchet_json: RatchetJson, tmp_path: Path
) -> None:
    file = tasks(tmp_path / "t.jsonl", {"id": "a", "input": "x"}, {"id": "b"}, {"id": "a"})
    code, _, err = ratchet("import", "d", file)
    assert code == 2
    assert "t.jsonl:2: the task has no 'input'" in err
    assert "(1 more bad record.) Nothing was imported." in " ".join(err.split())
    assert ratchet_json("list") == {"datasets": []}
    found = ratchet_json("import", "d", file, "--skip-bad")
    assert (found["added"], len(found["bad"])) == (1, 2)


def test_an_import_changes_tasks_by_id_and_removes_only_on_request(
    ratchet_json: RatchetJson, tmp_path: Path
) -> None:
    old = tasks(tmp_path / "old.jsonl", *({"id": t, "input": t} for t in TOPICS))
    new = tasks(tmp_path / "new.jsonl", {"id": TOPICS[0], "input": TOPICS[0], "expected": "y"})
    ratchet_json("import", "d", old)
    found = ratchet_json("import", "d", new)
    assert (found["added"], found["changed"], found["removed"], found["same"]) == (0, 1, 0, 7)
    found = ratchet_json("import", "d", new, "--replace")
    assert (found["added"], found["changed"], found["removed"], found["same"]) == (0, 0, 7, 1)


def test_a_file_whose_splits_leak_is_reported_and_a_new_split_mends_it(
    ratchet: Ratchet, ratchet_json: RatchetJson, tmp_path: Path
) -> None:
    rows = [{"id": t, "input": f"tell me more about {t} today"} for t in TOPICS]
    rows += [
        {"id": "one", "input": "how long does a refund take", "split": "train"},
        {"id": "two", "input": "Hi, how long does a refund take?", "split": "test"},
    ]
    file = tasks(tmp_path / "t.jsonl", *rows)
    code, out, _ = ratchet("import", "d", file)
    assert code == 0
    assert "A group of tasks that says nearly the same is spread over several splits" in out
    assert "one (train), two (test)" in out
    assert "one (train), two (test)" in ratchet_json("show", "d")["leak"]
    ratchet_json("split", "d", "--split", "0.5,0,0.5")
    assert ratchet_json("show", "d")["leak"] == ""


def test_a_dataset_is_split_anew_so_that_a_user_is_in_one_split(
    ratchet: Ratchet, ratchet_json: RatchetJson, tmp_path: Path
) -> None:
    rows = [
        {"id": f"{t}{n}", "input": f"{t} number {n}", "user": t} for t in TOPICS for n in range(9)
    ]
    ratchet_json("import", "d", tasks(tmp_path / "t.jsonl", *rows))
    planned = ratchet_json("split", "d", "--group-by", "user", "--split", "0.5,0,0.5", "--dry-run")
    assert planned["moved"] > 0
    assert ratchet_json("list")["datasets"][0]["versions"] == 1
    ratchet_json("split", "d", "--group-by", "user", "--split", "0.5,0,0.5")
    shown = ratchet_json("show", "d", "--limit", "100")
    assert shown["reason"] == "split anew by user"
    by_user: dict[str, set[str]] = {}
    for task in shown["tasks"]:
        by_user.setdefault(task["metadata"]["user"], set()).add(task["split"])
    assert all(len(splits) == 1 for splits in by_user.values())
    code, out, _ = ratchet("diff", "d")
    assert code == 0
    assert "split: " in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", "nothing"], "The store has no dataset 'nothing'."),
        (["diff", "nothing"], "The store has no dataset 'nothing'."),
        (["export", "nothing", "x.jsonl"], "The store has no dataset 'nothing'."),
        (["split", "nothing"], "The store has no dataset 'nothing'."),
        (["capture", "a@b"], "'a@b' is not a valid dataset name."),
        (["capture", "d", "--score", "<=x"], "'<=x' is not a score condition."),
        (["capture", "d", "--split", "1,2"], "'1,2' is not a list of three shares."),
        (["import", "d", "missing.jsonl"], "missing.jsonl cannot be read"),
        (["import", "d", "missing.txt"], "The extension of missing.txt does not name a format."),
    ],
)
def test_mistakes_are_one_sentence(ratchet: Ratchet, arguments: list[str], sentence: str) -> None:
    code, _, err = ratchet(*arguments)
    assert code == 2
    assert sentence in err
    assert "Traceback" not in err


def test_eval_run_and_improve_take_a_dataset(make_project: MakeProject) -> None:
    project = make_project(tasks=0)
    lines = [json.dumps({"id": f"t{n}", "input": n}) for n in range(240)]
    project.write("numbers.jsonl", "\n".join(lines) + "\n")
    (project.root / "tasks.jsonl").unlink()
    project.commit()
    found = project.json("datasets", "import", "numbers", "numbers.jsonl")
    evaluated = project.json("eval", "--dataset", "numbers", "--split", "all")
    assert evaluated["candidates"][0]["rollouts"] == 240  # type: ignore[index]
    version = str(found["version"])
    done = project.ratchet("run", "--task", "t7", "--dataset", f"numbers@{version[:10]}")
    assert done.returncode == 0, done.stderr
    project.write("more.jsonl", json.dumps({"id": "more", "input": 1000}) + "\n")
    newest = project.json("datasets", "import", "numbers", "more.jsonl")["version"]
    improved = project.json("improve", "--dataset", f"numbers@{version[:10]}", "--no-ship")
    (listed,) = project.json("datasets", "list")["datasets"]  # type: ignore[misc]
    assert listed["version"] == newest, "an old version that is used is not the latest again"
    evidence = json.loads(Path(str(improved["evidence"])).read_text())
    assert (evidence["dataset"]["name"], evidence["dataset"]["version"]) == ("numbers", version)
    unknown = project.ratchet("eval", "--dataset", "other")
    assert unknown.returncode == 2
    assert "The store has no dataset 'other'." in unknown.stderr


COLOURS = """
import ratchet

KNOBS = ratchet.params("knobs", aim=ratchet.Float(0.0, 0.0, 1.0))


@ratchet.agent
def answer(number):
    return f"{number} {'red' if KNOBS.aim > 0.5 else 'blue'}"
"""


def test_open_tasks_take_no_part_where_the_objective_compares(make_project: MakeProject) -> None:
    from tests.cli.conftest import CONFIG, INLINE

    compares = CONFIG.replace('use = "agent:closeness"\nvouched = true', 'use = "exact_match"')
    project = make_project(agent=COLOURS, config=compares + INLINE, tasks=0)
    tasks = [{"id": f"t{n}", "input": n, "expected": f"{n} red"} for n in range(150)]
    tasks += [{"id": f"open{n}", "input": 1000 + n} for n in range(60)]
    project.write("tasks.jsonl", "\n".join(map(json.dumps, tasks)) + "\n")
    project.commit()
    done = project.ratchet("improve", "--no-ship", "--json")
    assert "60 of 210 tasks have no expected answer, which 'exact_match' needs" in done.stderr
    found = json.loads(done.stdout)
    assert found["verdict"] == "promote", done.stderr
    evidence = json.loads(Path(str(found["evidence"])).read_text())
    assert all(pair["task"].startswith("t") for pair in evidence["pairs"])


def test_a_dataset_in_ratchet_toml_replaces_the_task_file(make_project: MakeProject) -> None:
    from tests.cli.conftest import CONFIG, INLINE

    project = make_project(config=CONFIG + INLINE + '\n[tasks]\ndataset = "numbers"\n')
    refused = project.ratchet("eval")
    assert "The store has no dataset 'numbers'." in refused.stderr
    project.json("datasets", "import", "numbers", "tasks.jsonl")
    assert project.json("eval", "--limit", "3")["candidates"][0]["rollouts"] == 3  # type: ignore[index]


def test_coverage_is_drawn_as_a_map(ratchet: Ratchet, sqlite_url: str, tmp_path: Path) -> None:
    file = tasks(
        tmp_path / "t.jsonl", *({"input": f"book a <meeting> room for {n}"} for n in range(9))
    )
    assert ratchet("import", "rooms", file)[0] == 0
    code, _, err = ratchet("show", "rooms", "--plot", "map.png")
    assert code == 2
    assert "There are 0 live inputs, too few for a map; 50 are needed." in err
    booking, refund = "book a <meeting> room for", "I want my money back, the parcel got lost,"
    traces(sqlite_url, *(f"{booking if n % 2 else refund} {n}" for n in range(60)))
    for name in ("map.png", "maps/map.html"):
        code, out, err = ratchet("show", "rooms", "--plot", name)
        assert (code, err) == (0, "")
        assert f"Plot: {name}" in out
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "maps" / "map.html").read_text()
    assert page.count("<g>") == 2
    assert page.count("#c2452d") == 2  # one gap, and its line in the legend
    assert "– book a &lt;meeting&gt; room for" in page
    assert "neither a .png nor an .html file" in ratchet("show", "rooms", "--plot", "map.svg")[2]


def test_traces_at_a_server_become_tasks_of_the_own_store(
    ratchet_json: RatchetJson,
    ratchet: Ratchet,
    serving: Callable[..., RunningServer],
    sqlite_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elsewhere = f"sqlite:///{tmp_path / 'server.db'}"
    traces(elsewhere, *(f"what do you know about {topic} today" for topic in TOPICS))
    with Store.open(elsewhere) as store:
        store.rollouts.create([ended("no", id="r1", input="a rollout")], 1.0)
        span = Span(trace_id="f" * 32, span_id="1" * 16, name="answer", start_ns=99, end_ns=100)
        store.spans.put([SpanRecord(span=span, rollout_id="r1", fence=1)])
        score = Score(evaluator="reward", version="1", value=0.0)
        store.scores.add([("r1", score)], 1.0)
        _, secret = store.keys.create("reader", ["read"], 1.0)
    monkeypatch.setenv("RATCHET_KEY", secret)
    server = serving(elsewhere, ServeSettings(require_key=True))
    found = ratchet_json("capture", "support", "--server", server.url, "--agent", "support")
    assert len(found["tasks"]) == len(TOPICS)
    assert {one["expected"] for one in found["tasks"]} >= {None, "answer 0"}
    failed = ratchet_json("capture", "support", "--server", server.url, "--score", "reward<=0.5")
    assert [one["input"] for one in failed["tasks"]] == ["a rollout"]
    with Store.open(sqlite_url) as store:
        assert len(store.datasets.named("support").tasks) == len(TOPICS) + 1
    with Store.open(elsewhere) as store:
        assert store.datasets.list() == []
    monkeypatch.setenv("RATCHET_KEY", "rk_wrong")
    code, _, err = ratchet("capture", "support", "--server", server.url)
    assert code != 0
    assert "key" in err


def test_a_project_with_a_server_captures_the_traces_there(
    serving: Callable[..., RunningServer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    elsewhere = f"sqlite:///{tmp_path / 'server.db'}"
    traces(elsewhere, "what do you know about lamps today")
    server = serving(elsewhere)
    monkeypatch.chdir(tmp_path)
    config = f'[agent]\nentry = "agent:answer"\n\n[run]\nserver = "{server.url}"\n'
    (tmp_path / "ratchet.toml").write_text(config)
    assert run(["datasets", "capture", "support", "--json"]) == 0
    printed = capsys.readouterr()
    assert f"Reading the traces of {server.url}" in printed.err
    assert [task["expected"] for task in json.loads(printed.out)["tasks"]] == ["answer 0"]
    with Store.open(f"sqlite:///{tmp_path / '.ratchet' / 'ratchet.db'}") as store:
        assert len(store.datasets.named("support").tasks) == 1
