"""The check of services: real servers on loopback in a copy, with a simulator as their model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.cli.app import run
from ratchet.wire.checking import CheckReport, check

DESK = """\
import os
import subprocess

import openai

RULES = "You answer readers of a public library, and you say how long each book may be kept."


def send_mail(text: str) -> None:
    subprocess.run(["touch", {mail!r}])


def ask(question: str) -> str:
    answer = openai.OpenAI().chat.completions.create(
        model="gpt-4o-mini",
        messages=[{{"role": "system", "content": RULES}}, {{"role": "user", "content": question}}],
    )
    {then}
    return answer.choices[0].message.content
"""
FASTAPI = """\
from fastapi import APIRouter, FastAPI
from pydantic import BaseModel

from desk import ask

router = APIRouter(prefix="/library")


class Asked(BaseModel):
    message: str
    limit: int = 3


@router.post("/ask")
def answer(asked: Asked) -> dict:
    return {"answer": ask(asked.message)}


app = FastAPI()
app.include_router(router)
"""
FLASK = """\
from flask import Flask, request

from desk import ask


def create_app():
    app = Flask(__name__)

    @app.post("/ask")
    def answer():
        return {"answer": ask(request.json["message"])}

    return app
"""
Wire = Callable[..., Path]


@pytest.fixture
def wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wire:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Someone")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "someone@example.com")

    def make(server: str, entry: str, then: str = "") -> Path:
        root = tmp_path / "library"
        root.mkdir()
        (root / "server.py").write_text(server)
        (root / "desk.py").write_text(DESK.format(mail=str(tmp_path / "mail"), then=then))
        (root / "requirements.txt").write_text("openai\nfastapi\nflask\n")
        for words in (["init", "-qb", "main"], ["add", "-A"], ["commit", "-qm", "the agent"]):
            subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)
        assert run(["init", str(root), "--yes", "--no-check", "--entry", entry]) == 0
        assert "url = " in (root / "ratchet.toml").read_text()
        return root

    return make


def _states(report: CheckReport) -> dict[str, str]:
    return {one.what: one.state for one in report.findings}


def test_a_route_is_called_once_with_a_body_of_its_own_schema(wire: Wire) -> None:
    root = wire(FASTAPI, "server.py:POST /ask")
    before = {one.name for one in root.iterdir()}
    report = check(root, python=Path(sys.executable))
    assert _states(report) == {
        "agent": "verified",
        "trace": "not verified",
        "same prompts": "verified",
        "changed prompts": "verified",
        "side effects": "verified",
    }, report
    assert "answered 200; the simulated model was asked 1 times" in report.findings[0].why
    assert {one.name for one in root.iterdir()} == before


def test_an_application_that_a_function_makes_is_started_and_its_tools_are_denied(
    wire: Wire, tmp_path: Path
) -> None:
    root = wire(FLASK, "server.py:POST /ask", then="send_mail(question)")
    report = check(root, python=Path(sys.executable))
    states = _states(report)
    assert states["agent"] == states["same prompts"] == "verified", report
    assert any("Denied: the tool 'send_mail'" in one.why for one in report.findings), report
    assert not (tmp_path / "mail").exists()


@pytest.mark.parametrize(
    ("change", "said", "state"),
    [
        (("app = FastAPI()", "import nobody_has_it\napp = FastAPI()"), "nobody_has_it", ""),
        (("-> dict:\n", "-> dict:\n    raise ValueError('odd')\n"), "answered 500", "failed"),
        (("ask(asked.message)", "asked.message"), "asked no model", ""),
        (("limit: int = 3", 'limit: int\n    code: constr(pattern="^z{9}$")'), "with 422", ""),
    ],
    ids=["lacks a package", "fails", "asks no model", "refuses the body"],
)
def test_what_cannot_be_called_is_a_reason_and_one_next_step(
    wire: Wire, change: tuple[str, str], said: str, state: str
) -> None:
    server = FASTAPI.replace("import BaseModel", "import BaseModel, constr").replace(*change)
    if said == "asked no model":
        server = server.replace("-> dict:\n", "-> dict:\n    if not asked.message: ask('')\n")
    root = wire(server, "server.py:POST /ask")
    (found,) = check(root, python=Path(sys.executable)).findings
    assert said in found.why, found
    assert found.state == (state or "not verified")
    assert found.next_step
