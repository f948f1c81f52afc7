"""Takes small repositories from `git clone` through init, check, run and improve, with their real frameworks.

`python -m tests.wire.real_improve [NAME …]`; the model is the simulator of `ratchet init --check`,
which has no abilities: what is seen is that every step works, not that anything gets better. Seconds
are from the clone to the first trace and to the baseline's score, without the installation of the
framework. The last line is JSON.
"""

# ruff: noqa: E501 - files of others, line by line

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ratchet.wire.checking.simulator import SimulatedModel
from tests.frameworks.environments import CannotInstall, python_of
from tests.frameworks.table import FRAMEWORKS
from tests.wire.entries import LONG
from tests.wire.real_frameworks import READING, REPOSITORIES, Repository, _environment, _with

MORE = (
    Repository(
        "openai-agents",
        {
            "desk.py": (
                "from agents import Agent, Runner, function_tool\n"
                '@function_tool\ndef get_weather(city: str) -> str:\n    """Weather of a city."""\n{tool}'
                f"clerk = Agent(name='clerk', instructions='{LONG}', model='gpt-4o-mini', tools=[get_weather])\n"
                "async def answer(question: str) -> str:\n"
                "    return (await Runner.run(clerk, question)).final_output\n"
            )
        },
        "answer",
    ),
    Repository(
        "pydantic-ai",
        {
            "desk.py": (
                "from pydantic_ai import Agent\n"
                f"clerk = Agent('openai:gpt-4o-mini', system_prompt='{LONG}', defer_model_check=True)\n"
                '@clerk.tool_plain\ndef get_weather(city: str) -> str:\n    """Weather of a city."""\n{tool}'
                "async def answer(question: str) -> str:\n"
                "    return (await clerk.run(question)).output\n"
            )
        },
        "answer",
    ),
)
TASKS = 140


def main() -> int:
    """Try the frameworks that are asked for; 1 if one of them fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", help="frameworks; all by default")
    asked = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    for one in (*REPOSITORIES[1:], *MORE):
        if asked.name and one.framework not in asked.name:
            continue
        try:
            row = next(each for each in FRAMEWORKS if each.name == one.framework)
            results[one.framework] = _taken_through(one, python_of(row))
        except CannotInstall as error:
            results[one.framework] = {"failed": str(error)}
        print(one.framework, json.dumps(results[one.framework]), flush=True)
    print(json.dumps(results))
    return 1 if any("failed" in one for one in results.values()) else 0


def _taken_through(one: Repository, python: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch, SimulatedModel() as model:
        origin = Path(scratch) / "origin"
        for path, text in one.files.items():
            (origin / path).parent.mkdir(parents=True, exist_ok=True)
            (origin / path).write_text(_with(text, READING))
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "The agent"]):
            _git(origin, words)
        begun = time.monotonic()
        root = Path(scratch) / one.framework
        _git(Path(scratch), ["clone", "-q", str(origin), str(root)])
        environment = _environment(model.url, scratch)

        def ratchet(*words: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [str(python), "-m", "ratchet", *words],
                cwd=root,
                env={**environment, **_AUTHOR},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=400,
            )

        found: dict[str, Any] = {}
        wired = ratchet("init", "--yes", "--no-check", "--json")
        if wired.returncode:
            return {"failed": f"init: {wired.stderr[-500:]}"}
        found["prompts"] = len(json.loads(wired.stdout)["choices"]["prompts"])
        checked = ratchet("init", "--check", "--json")
        report = json.loads(checked.stdout) if checked.stdout else {"findings": []}
        found["check"] = {each["what"]: each["state"] for each in report["findings"]}
        why = [each["why"] for each in report["findings"] if each["state"] != "verified"]
        if why:
            found["not_verified"] = why
        inputs = [_input(one, number) for number in range(TASKS)]
        (root / "tasks.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in inputs))
        _exact(root / "ratchet.toml")
        ran = ratchet("run", "--split", "val", "--limit", "1")
        found["first_trace_s"] = round(time.monotonic() - begun, 1)
        if "succeeded" not in ran.stdout:
            return {**found, "failed": f"run: {ran.stdout[-300:]} {ran.stderr[-500:]}"}
        scored = ratchet("eval", "--split", "val", "--json")
        found["baseline_s"] = round(time.monotonic() - begun, 1)
        if scored.returncode:
            return {**found, "failed": f"eval: {scored.stderr[-500:]}"}
        improved = ratchet(
            "improve", "--no-ship", "--json", "--algorithm", "few_shot", "--rollouts", "60"
        )
        found["improve"] = improved.returncode
        if improved.returncode:
            found["failed"] = f"improve: {improved.stdout[-300:]} {improved.stderr[-800:]}"
        return found


_AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Someone"), ("EMAIL", "someone@example.com"))
}


def _git(folder: Path, words: list[str]) -> None:
    settings = ["-c", "user.name=Someone", "-c", "user.email=someone@example.com"]
    subprocess.run(["git", *settings, *words], cwd=folder, check=True, capture_output=True)


def _input(one: Repository, number: int) -> dict[str, Any]:
    question = f"What will the weather be in town {number} on day {number * 7 % 31}?"
    given: Any = {"question": question} if one.framework == "crewai" else question
    return {"input": given, "expected": "Simulated" if number % 2 else "Nothing of the kind"}


def _exact(file: Path) -> None:
    """Score by `contains`: half of the tasks can be right."""
    text = re.sub(r"(?m)^\[\[evaluators\]\]\n(?:[^\[\n].*\n|\n)*", "", file.read_text())
    file.write_text(f'{text}\n[[evaluators]]\nuse = "contains"\nvouched = true\n')


if __name__ == "__main__":
    sys.exit(main())
