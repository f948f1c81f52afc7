"""`ratchet init --coach` with a simulator of a coach: its opinion, its drafts, and its faults."""

from __future__ import annotations

import ast
import asyncio
import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ratchet.cli.app import run
from ratchet.llm import CoachSettings
from ratchet.observe.redaction import Redactor
from ratchet.sandbox import SandboxUnavailable
from ratchet.wire import look
from ratchet.wire.coaching import Consultation, consult
from ratchet.wire.recommending import recommend
from tests.llm.endpoint import Endpoint, React, error
from tests.wire.coach_simulator import HANGING, OPINION, scripted

SECRET = "sk-proj-a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"
AGENT = f'''\
import openai

RULES = "You answer readers of a public library, and you tell them what is lent and for how long."
KEY = "{SECRET}"


def ask(question: str) -> str:
    """Questions go to ann.reader@example.com if all fails."""
    client = openai.OpenAI()
    answer = client.chat.completions.create(
        model="gpt-4o-mini",
        messages=[{{"role": "system", "content": RULES}}, {{"role": "user", "content": question}}],
    )
    return answer.choices[0].message.content
'''
ROWS = [
    {"question": f"Is the {name} lent?", "answer": f"The {name} is on shelf {number}."}
    for number, name in enumerate(("atlas", "globe", "map", "diary", "novel", "poem", "play"))
]
QUICK = CoachSettings(timeout_s=5.0, total_s=10.0, retries=0)
NO_DRAFTS = {"evaluators": {"evaluators": []}}
"""Answers without evaluators: those are measured for seconds each."""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Someone")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "someone@example.com")
    root = tmp_path / "library"
    root.mkdir()
    (root / "desk.py").write_text(AGENT)
    (root / "requirements.txt").write_text("openai\n")
    (root / ".env").write_text("LIBRARY_PASSWORD=never-to-be-read\n")
    (root / "questions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    for words in (["init", "-qb", "main"], ["add", "-A"], ["commit", "-qm", "the agent"]):
        subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)
    return root


def consulted(
    root: Path, react: React, monkeypatch: pytest.MonkeyPatch, **limits: Any
) -> tuple[Consultation, str]:
    """What a simulated coach says of a repository, and all that it was sent."""
    found = look(root)
    choices = recommend(found).choices
    assert choices is not None
    with Endpoint(react) as simulator:
        monkeypatch.setenv("OPENAI_BASE_URL", simulator.url)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        limits = {"settings": QUICK, **limits}
        made = asyncio.run(
            consult(root, found, choices, "gpt-4o-mini", redactor=Redactor(), **limits)
        )
        return made, json.dumps([one.body for one in simulator.requests])


def test_the_page_has_an_opinion_marked_as_one_and_what_was_spent(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, sent = consulted(library, scripted(**NO_DRAFTS), monkeypatch)
    lines = made.section().lines
    assert "opinion of gpt-4o-mini" in lines[0]
    assert "nothing of it was checked" in lines[0]
    assert any(
        line.startswith("First it would improve the prompt rules: It says") for line in lines
    )
    assert not any("\x1b" in line for line in lines)
    questions = sent.count('"role": "system"')
    usd = questions * (1000 * 0.15 + 100 * 0.6) / 1e6
    assert lines[-1] == f"Spent on the coach: {questions} questions, ${usd:.4f}."
    assert not made.problems


def test_the_coach_is_sent_redacted_source_and_nothing_of_files_of_secrets(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sent = consulted(library, scripted(**NO_DRAFTS), monkeypatch)
    assert "You answer readers of a public library" in sent
    assert "client.chat.completions.create" in sent
    for secret in (SECRET, "ann.reader@example.com", "never-to-be-read"):
        assert secret not in sent
    assert "[redacted:" in sent


def test_drafts_are_measured_and_kept_out_of_what_decides(
    library: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Endpoint(scripted()) as simulator:
        monkeypatch.setenv("OPENAI_BASE_URL", simulator.url)
        words = ["init", str(library), "--yes", "--no-check", "--coach", "gpt-4o-mini"]
        assert run(words) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "What this agent is" in page
    assert "What the coach thinks" in page
    assert "same_answer. Report card: on 7 expected answers, decides" in page, page
    assert "always_fine was dropped, rejected" in page, page
    text = (library / "draft_evaluators.py").read_text()
    assert [n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)] == [
        "same_answer"
    ]
    assert "unproved" in text
    assert '# use = "draft_evaluators:same_answer"' in text
    assert '# criteria = ["Is the answer polite?"]' in text
    drafted = [json.loads(line) for line in (library / "draft_tasks.jsonl").open()]
    assert {one["metadata"]["draft"] for one in drafted} == {"unproved"}
    assert not any("expected" in one for one in drafted)
    settings = (library / "ratchet.toml").read_text()
    assert "draft" not in settings
    assert tomllib.loads(settings)["coach"] == {"model": "gpt-4o-mini"}
    assert "May I keep a map" not in (library / "tasks.jsonl").read_text()
    assert run(["init", str(library), "--undo"]) == 0
    assert not (library / "draft_evaluators.py").exists()
    assert not (library / "draft_tasks.jsonl").exists()


@pytest.mark.parametrize(
    ("react", "said"),
    [
        (
            scripted(what_it_is={**OPINION, "improve_first": "nobody"}, **NO_DRAFTS),
            "names the prompt 'nobody'",
        ),
        (scripted(what_it_is="I had rather not.", **NO_DRAFTS), "cannot be used"),
        (lambda _: error(500, "broken"), "500"),
        (lambda _: error(401, "wrong key"), "cannot be used"),
    ],
    ids=["names a prompt that is not there", "is no JSON", "fails", "refuses the key"],
)
def test_a_coach_that_fails_or_lies_is_a_sentence(
    library: Path, monkeypatch: pytest.MonkeyPatch, react: React, said: str
) -> None:
    made, _ = consulted(library, react, monkeypatch)
    lines = "\n".join(made.section().lines)
    assert made.opinion is None
    assert said in lines
    assert "The rest of this page is complete without that." in lines
    assert "Traceback" not in lines


def test_a_coach_that_hangs_is_given_up_and_what_it_answered_is_kept(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = consulted(library, scripted(evaluators=HANGING), monkeypatch, seconds=3.0)
    assert made.opinion is not None
    assert not made.evaluators.kept
    assert "did not end within 3 s" in made.problems[-1]


def test_without_an_endpoint_the_wiring_is_made_as_without_a_coach(
    library: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    words = ["init", str(library), "--dry-run", "--coach", "gpt-4o-mini"]
    assert run(words) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "What this agent is" in page
    assert "What it costs" in page
    assert "complete without that" in page
    assert "draft_evaluators" not in page


def test_a_wired_repository_is_not_shown_to_a_coach_again(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", str(library), "--look", "--coach", "m"]) == 2
    assert "ratchet evaluators generate" in capsys.readouterr().err


def test_without_a_sandbox_drafted_code_is_not_run_and_says_so(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(**_: object) -> None:
        raise SandboxUnavailable("This machine has no sandbox.")

    monkeypatch.setattr("ratchet.wire.coaching.drafts.function_pool", none)
    made, _ = consulted(library, scripted(), monkeypatch)
    cards = {one.proposal.name: one.card for one in made.evaluators.kept}
    assert cards["same_answer"] == "none: This machine has no sandbox."
    assert not made.problems
