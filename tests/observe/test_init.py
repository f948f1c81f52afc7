"""`ratchet.init`: one line, and everything an agent does is there; and it never gets in the way."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ratchet
from ratchet.observe import Handle, destination
from ratchet.observe.project_paths import FILE_NAME
from tests.observe.conftest import count, stored

Start = Callable[..., Handle]

# What is not sent within seconds of the end waits on disk, and on a busy machine much of it would.
AGENT = """
import ratchet
from ratchet.observe.live import LivePipeline
LivePipeline.shutdown.__defaults__ = (60.0,)
ratchet.init({arguments})

@ratchet.tool
def look_up(word):
    return word.upper()

@ratchet.agent
def answer(question):
    return look_up(question)

if __name__ == "__main__":
    answer("why")
{more}
"""


def run(folder: Path, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    (folder / "bot.py").write_text(code)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RATCHET_")}
    return subprocess.run(
        [sys.executable, "bot.py"],
        cwd=folder,
        env={**kept, **environ},
        capture_output=True,
        text=True,
        timeout=60,
    )


@ratchet.tool
def look_up(word: str) -> str:
    return word.upper()


def test_a_script_with_one_line_more_leaves_its_tree_in_the_projects_store(project: Path) -> None:
    (project / FILE_NAME).write_text('[agent]\nentry = "bot:answer"\n')
    ran = run(project, AGENT.format(arguments="", more=""))
    assert (ran.returncode, ran.stderr) == (0, "")
    spans = stored(project)
    assert spans["look_up"].parent_id == spans["answer"].span_id
    assert json.loads(spans["answer"].attributes["ratchet.output"]) == "WHY"
    assert (project / ".ratchet" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize(
    ("end", "code"),
    [("    raise SystemExit(3)", 3), ("    raise ValueError('no')", 1)],
    ids=["exits", "fails"],
)
def test_however_a_process_ends_its_spans_are_sent(project: Path, end: str, code: int) -> None:
    ran = run(project, AGENT.format(arguments="", more=end))
    assert ran.returncode == code, ran.stderr
    assert set(stored(project)) == {"answer", "look_up"}


FORK = """
    import os
    child = os.fork()
    if not child:
        answer("child")
        raise SystemExit(0)
    assert os.waitpid(child, 0)[1] == 0
    answer("parent")
"""
POOL = """
    import multiprocessing
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            assert pool.map(answer, ["child"]) == ["CHILD"]
            pool.close()
            pool.join()
"""


@pytest.mark.parametrize(("more", "answers"), [(FORK, 3), (POOL, 3)], ids=["fork", "pool"])
def test_child_processes_send_theirs_and_not_their_parents(
    project: Path, more: str, answers: int
) -> None:
    ran = run(project, AGENT.format(arguments="", more=more))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert count(project / ".ratchet" / "ratchet.db") == 2 * answers


def test_nothing_is_made_before_the_first_span(start: Start, project: Path) -> None:
    handle = start()
    assert handle.flush(60)
    assert not list(project.iterdir())
    look_up("a")
    assert handle.flush(60)
    assert set(stored(project)) == {"look_up"}
    assert handle.status().sent == 1


def test_called_again_it_changes_nothing_and_says_so_once(
    start: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratchet.observe.setup._warned_again", False)
    handle = start("one")
    assert start("one") is handle
    assert "already called" not in caplog.text
    assert start("two", sample=0.5) is handle
    assert start("three") is handle
    assert caplog.text.count("already called; its first arguments stay in effect.") == 1
    assert handle.status().agent == "one"


def test_it_can_be_switched_off(start: Start, project: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("RATCHET_DISABLED", "1")
    handle = start()
    look_up("a")
    assert handle.flush() is True
    assert handle.status().on is False
    handle.keep("x")
    handle.shutdown()
    assert not list(project.iterdir())


def test_after_the_end_nothing_is_recorded_and_it_may_begin_again(
    start: Start, project: Path
) -> None:
    start().shutdown()
    look_up("a")
    assert not stored(project)
    start()
    look_up("a")
    start().flush(60)
    assert set(stored(project)) == {"look_up"}


@pytest.mark.parametrize(
    ("agent", "variable", "entry", "name"),
    [
        ("given", "environ", "bot:main", "given"),
        (None, "environ", "bot:main", "environ"),
        (None, "", "bot:main", "bot-main"),
        ("my agent / 2", "", "", "my-agent-2"),
        ("x" * 300, "", "", "x" * 100),
        ("***", "", "", "agent"),
    ],
)
def test_the_agents_name(
    project: Path, agent: str | None, variable: str, entry: str, name: str
) -> None:
    if entry:
        (project / FILE_NAME).write_text(f'[agent]\nentry = "{entry}"\n')
    environ = {"RATCHET_AGENT": variable} if variable else {}
    assert destination.find(agent, None, None, environ=environ).agent == name


def test_where_spans_go(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(url: str | None = None, **environ: str) -> destination.Destination:
        return destination.find("a", url, None, environ=environ)

    below = project / "deep" / "down"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert find().store == f"sqlite:///{below}/.ratchet/ratchet.db"
    (project / FILE_NAME).write_text('[store]\nurl = "sqlite:///data/own.db"\n')
    assert find().store == f"sqlite:///{project}/data/own.db"
    monkeypatch.setenv("RATCHET_STORE", "sqlite:////elsewhere.db")
    assert find().store == "sqlite:////elsewhere.db"
    assert find(RATCHET_URL="http://127.0.0.1:1/").server == "http://127.0.0.1:1"
    found = find("http://127.0.0.1:2", RATCHET_URL="http://127.0.0.1:1")
    assert (found.server, found.store) == ("http://127.0.0.1:2", "")
    assert find("postgresql://u:secret@host/name").store == "postgresql://u:secret@host/name"
    assert "secret" not in repr(find("postgresql://u:secret@host/name"))
    assert found.spool != find("http://127.0.0.1:1").spool, "for each its own"
    assert project in found.spool.parents


def broken_instruments(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("no instruments today")

    monkeypatch.setattr("ratchet.observe.instruments.install", fail)


def broken_opentelemetry(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("no telemetry today")

    monkeypatch.setattr("ratchet.observe.otel_bridge.OtelBridge.connect", fail)


def file_in_place_of_the_folder(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    (project / ".ratchet").write_text("")


def broken_toml(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    (project / FILE_NAME).write_text("[agent\n")


def nothing(monkeypatch: pytest.MonkeyPatch, project: Path) -> None: ...


@pytest.mark.parametrize(
    ("arrange", "arguments", "words"),
    [
        (nothing, {"url": "http://u:p@host"}, "Nothing is captured"),
        (nothing, {"url": "ftp//x"}, "Nothing is captured"),
        (nothing, {"url": "http://127.0.0.1:1", "key": "two words"}, "Nothing is captured"),
        (broken_toml, {}, "Nothing is captured"),
        (broken_instruments, {"instrument": True}, "no instruments today"),
        (broken_opentelemetry, {}, "no telemetry today"),
        (file_in_place_of_the_folder, {}, "cannot be"),
        (nothing, {"url": "mysql://host/x"}, "mysql"),
        (nothing, {"sample": 7}, "sample=7"),
        (nothing, {"sample": "half"}, "sample='half'"),
        (nothing, {"forward": "http://127.0.0.1:1"}, "opentelemetry-exporter-otlp-proto-http"),
        (nothing, {"forward": True}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
    ],
)
def test_whatever_is_wrong_is_a_warning_and_the_agent_goes_on(
    start: Start,
    project: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    arrange: Callable[..., None],
    arguments: dict[str, Any],
    words: str,
) -> None:
    exporter = "opentelemetry.exporter.otlp.proto.http"
    for name in (exporter, f"{exporter}.trace_exporter"):  # as if it were not installed
        monkeypatch.setitem(sys.modules, name, None)
    arrange(monkeypatch, project)
    handle = start(**arguments)
    assert look_up("a") == "A"
    handle.flush(60)
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert any(words in warning for warning in warnings), warnings
    assert "p@host" not in "".join(warnings)


def test_rules_of_redaction_that_cannot_be_read_keep_all_contents_out(
    start: Start, project: Path
) -> None:
    (project / FILE_NAME).write_text('[redaction]\nkeys = "not a list"\n')
    start().status()
    look_up("very secret")
    start().flush(60)
    assert "secret" not in str(stored(project)["look_up"]).lower()


def test_a_service_that_is_asked_for_a_library_it_has_not_imports_none(project: Path) -> None:
    code = (
        "import sys, ratchet\nratchet.init()\n"
        "print([m for m in ('sqlalchemy', 'httpx2', 'openai', 'langchain', 'starlette')"
        " if m in sys.modules])"
    )
    assert run(project, code).stdout.strip() == "[]"
