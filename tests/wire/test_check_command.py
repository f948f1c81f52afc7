"""The check of agents that are a command: run once in a copy, with a simulator as their model."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet._http import httpx2
from ratchet.autopilot.config import read_config
from ratchet.cli.app import run
from ratchet.wire.checking import CheckReport, check
from ratchet.wire.checking.findings import last_error, same_finding
from ratchet.wire.checking.simulator import SimulatedModel

PROGRAM = """\
import argparse
import subprocess

import openai

RULES = "You answer readers of a public library, and you say how long each book may be kept."


def send_mail(text):
    subprocess.run(["touch", {mail!r}])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("question")
    given = parser.parse_args().question
    answer = openai.OpenAI().chat.completions.create(
        model="gpt-4o-mini",
        messages=[{{"role": "system", "content": RULES}}, {{"role": "user", "content": given}}],
    )
    if "mail" in given:
        send_mail(answer.choices[0].message.content)
    print(answer.choices[0].message.content)


if __name__ == "__main__":
    main()
"""
MODULE = """\
import OpenAI from "openai";
const RULES = "You answer readers of a public library, and you say how long a book may be kept.";
export async function ask(question) {
  const answer = await new OpenAI().chat.completions.create({
    model: "gpt-4o-mini",
    messages: [{ role: "system", content: RULES }, { role: "user", content: question }],
  });
  return answer.choices[0].message.content;
}
"""
CLIENT = """\
export default class OpenAI {
  chat = { completions: { create: async (body) => {
    const url = `${process.env.OPENAI_BASE_URL}/chat/completions`;
    return (await fetch(url, { method: "POST", body: JSON.stringify(body) })).json();
  } } };
}
"""
Wire = Callable[..., Path]


@pytest.fixture
def wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wire:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Someone")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "someone@example.com")

    def make(files: dict[str, str], *options: str) -> Path:
        root = tmp_path / "library"
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        for words in (["init", "-qb", "main"], ["add", "-A"], ["commit", "-qm", "the agent"]):
            subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)
        assert run(["init", str(root), "--yes", "--no-check", *options]) == 0
        assert "command = " in (root / "ratchet.toml").read_text()
        return root

    return make


def _states(report: CheckReport) -> dict[str, str]:
    return {one.what: one.state for one in report.findings}


def test_a_program_runs_once_with_its_prompts_and_its_tools_denied(
    wire: Wire, tmp_path: Path
) -> None:
    program = PROGRAM.format(mail=str(tmp_path / "mail"))
    root = wire({"main.py": program, "requirements.txt": "openai\n"})
    (root / "tasks.jsonl").write_text('{"input": "mail me"}\n')
    report = check(root, python=Path(sys.executable))
    assert _states(report) == {
        "agent": "verified",
        "trace": "not verified",
        "same prompts": "verified",
        "changed prompts": "verified",
        "side effects": "verified",
    }, report
    assert "until the denied tool 'send_mail'" in report.findings[0].why
    assert not (tmp_path / "mail").exists()


def test_prompts_in_files_of_a_function_that_only_runs_as_a_command_are_the_gateway_s(
    wire: Wire, tmp_path: Path
) -> None:
    rules = PROGRAM.partition('RULES = "')[2].partition('"')[0]
    program = PROGRAM.format(mail=str(tmp_path / "mail")).replace(
        f'"{rules}"', 'pathlib.Path("rules.md").read_text()'
    )
    files = {"main.py": f"import pathlib\n{program}", "rules.md": rules}
    root = wire(files, "--entry", "main.py:main")
    assert "prompt_files" not in (root / "ratchet.toml").read_text()
    assert read_config(root / "ratchet.toml").agent.command == "python ratchet_command.py"
    report = check(root, python=Path(sys.executable))
    assert _states(report)["agent"] == "verified", report


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed.")
def test_a_module_of_node_runs_with_what_is_installed(
    wire: Wire,
) -> None:
    package = '{"name": "library", "type": "module", "dependencies": {"openai": "^4"}}\n'
    root = wire({"package.json": package, "index.js": MODULE, ".gitignore": "node_modules/\n"})
    report = check(root, python=Path(sys.executable))
    assert [one.why for one in report.findings] == [
        "It needs the package openai, which is not installed."
    ], report
    installed = root / "node_modules" / "openai"
    installed.mkdir(parents=True)
    (installed / "package.json").write_text('{"name": "openai", "main": "i.mjs"}\n')
    (installed / "i.mjs").write_text(CLIENT)
    report = check(root, python=Path(sys.executable))
    assert [one.why for one in report.findings] == [
        "It needs the package agent-ratchet, which is not installed."
    ], report


def test_a_schema_that_is_written_into_a_message_is_followed() -> None:
    schema = {"type": "object", "properties": {"queries": {"type": "array", "minItems": 2}}}
    said = f"Search.\n\nJSON schema:\n{json.dumps(schema)}\nYou MUST answer with a JSON object."
    body = {
        "messages": [{"role": "system", "content": said}, {"role": "user", "content": '"x": 1'}],
        "response_format": {"type": "json_object"},
    }
    with SimulatedModel() as model:
        answer = httpx2.post(f"{model.url}/v1/chat/completions", json=body).json()
    assert len(json.loads(answer["choices"][0]["message"]["content"])["queries"]) == 2


def test_the_error_of_a_log_is_the_last_of_python_and_the_first_of_node() -> None:
    python = "Traceback:\nValueError: one\nTraceback:\n  x\nlibrary.OddError: two\n"
    node = "\nTypeError: one is not a function\n    at index.js:1\n[cause]: Error: two\n"
    assert last_error(python) == "library.OddError: two"
    assert last_error(node) == "TypeError: one is not a function"
    assert last_error("") == ""


@pytest.mark.parametrize(
    ("before", "now", "state"),
    [
        (
            "It is 2026-11-23T18:29:59.900Z here.",
            "It is 2026-11-23T18:30:01.100Z here.",
            "verified",
        ),
        ("It is 2026-11-23 18:29:59.", "It is 2026-11-23 18:30:01!", "not verified"),
        ("Shelf 18:29:59.", "Shelf 18:29:58.", "not verified"),
    ],
)
def test_the_time_of_day_in_a_prompt_is_no_difference(before: str, now: str, state: str) -> None:
    found = same_finding({"status": "succeeded"}, [[before]], [[now]])
    assert found.state == state
    assert ("but for the time of day" in found.why) == (state == "verified")
