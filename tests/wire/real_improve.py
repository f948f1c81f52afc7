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
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ratchet.wire.checking.simulator import SimulatedModel
from tests.frameworks.environments import CannotInstall, python_of
from tests.frameworks.table import FRAMEWORKS, Framework
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
    Repository(
        "streamlit",
        {
            "travel-desk.py": (
                "import streamlit as st\nfrom openai import OpenAI\n"
                "st.title('Travel desk')\n"
                "key = st.sidebar.text_input('Enter your OpenAI API key', type='password')\n"
                "days = st.number_input('How many days?', 1, 30, 7)\n"
                "question = st.text_area('What do you want to know?')\n"
                "if st.button('Clear'):\n    st.session_state.clear()\n"
                "if not key:\n    st.warning('A key is needed.')\n"
                "elif st.button('Ask'):\n    with st.spinner('Looking it up'):\n"
                "        done = OpenAI(api_key=key).chat.completions.create(\n"
                "            model='gpt-4o-mini',\n"
                f"            messages=[{{'role': 'system', 'content': '{LONG}'}},\n"
                "                      {'role': 'user', 'content': f'{question} ({days} days)'}])\n"
                "    st.markdown(done.choices[0].message.content)\n"
            )
        },
        "travel-desk.py",
    ),
)
_STREAMLIT = Framework(
    "streamlit",
    "Streamlit",
    (),
    packages=("streamlit>=1.40", "openai>=1.50", "agent-ratchet[instruments]", "pytest"),
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
            rows = (*FRAMEWORKS, _STREAMLIT)
            row = next(each for each in rows if each.name == one.framework)
            python = python_of(row)
            results[one.framework] = _taken_through(one, python)
            if row is _STREAMLIT and (failed := _tested(python)):
                results[one.framework]["failed"] = failed
        except CannotInstall as error:
            results[one.framework] = {"failed": str(error)}
        print(one.framework, json.dumps(results[one.framework]), flush=True)
    print(json.dumps(results))
    return 1 if any("failed" in one for one in results.values()) else 0


def _tested(python: Path) -> str:
    """What failed of the tests that need Streamlit itself; they are skipped elsewhere."""
    file = "tests/run/test_streamlit_page.py"
    words = ["-m", "pytest", "-q", "--noconftest", "-c", os.devnull, "-rs", file]
    done = subprocess.run([str(python), *words], capture_output=True, text=True, timeout=400)
    passed = done.returncode == 0 and "skipped" not in done.stdout
    return "" if passed else f"{file}: {done.stdout[-800:]}"


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
