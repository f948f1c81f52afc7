"""Prompts that are read at import: learned, promoted, shipped; also when `ratchet` is killed."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faults.coached import CONFIG, finish, run, start
from tests.llm.endpoint import Endpoint, Reaction, Request, answer
from tests.repositories import committed

pytestmark = pytest.mark.xdist_group("import-bound")

CONSTANT = """
import os
import ratchet

KNOBS = ratchet.params("knobs", aim=ratchet.Choice("low", ["low", "high"]))
AIM = KNOBS.aim
"""
ATTRIBUTE = """
import os
import ratchet

class Desk:
    system = str(ratchet.prompt("desk", 'Book a room. {"as": "json"}', engine="plain"))
"""
FIELD = """
import os
from pathlib import Path
import yaml

with Path(__file__).with_name("agents.yaml").open() as file:
    GOAL = yaml.safe_load(file)["desk"]["goal"]
"""
CALL = """
import ratchet

@ratchet.agent
def answer(number):
    file = os.open(os.environ["CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{number} {VALUE}\\n".encode())
    os.close(file)
    return 1.0 if "high" in VALUE else 0.0


@ratchet.evaluator
def obeys(output):
    return output
"""
YAML = "# The desk\ndesk:\n  goal: 'Book a room.'  # to be learned\n  age: 3\n"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(coach) as served:
        yield served


def coach(request: Request) -> Reaction:
    """The prompt that it is shown, with one more sentence."""
    asked = "\n".join(message["content"] for message in request.body["messages"])
    found = re.findall(r"Book a room\.[^\n`<]*", asked)
    text = f"{found[-1].rstrip()} Aim high." if found else "ready"
    return answer(f"```\n{text}\n```")


def make_project(folder: Path, url: str, kind: str) -> Path:
    source, value, algorithm, options = {
        "constant": (CONSTANT, "AIM", "tune", "{ max_trials = 2 }"),
        "attribute": (
            ATTRIBUTE,
            "Desk.system",
            "apo",
            "{ beam_rounds = 1, beam_width = 1, branch_factor = 1 }",
        ),
        "field": (FIELD, "GOAL", "evolve", "{ max_candidates = 4 }"),
    }[kind]
    folder.mkdir()
    (folder / "agent.py").write_text(source + CALL.replace("VALUE", value))
    config = CONFIG.format(url=url, rollouts=250, algorithm=algorithm, options=options)
    if kind == "field":
        (folder / "agents.yaml").write_text(YAML)
        config += '\n[[prompt_files]]\npath = "agents.yaml"\nfields = ["desk.goal"]\n'
    else:
        config = config.replace("[run]\n", "[run]\nimport_per_candidate = true\n")
    (folder / "ratchet.toml").write_text(config)
    tasks = [json.dumps({"id": f"t{n}", "input": n}) for n in range(110)]
    (folder / "tasks.jsonl").write_text("\n".join(tasks) + "\n")
    return committed(folder)


def changed_lines(project: Path, branch: str) -> list[str]:
    diff = subprocess.run(
        ["git", "diff", "--unified=0", "main", branch],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [line for line in diff.splitlines() if re.match(r"[+-](?![+-])", line)]


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory, endpoint: Endpoint
) -> Callable[[str], tuple[Path, dict[str, Any], Counter[str]]]:
    """A run without kills, its end and its calls, by kind; run when first asked for."""

    @functools.cache
    def made(kind: str) -> tuple[Path, dict[str, Any], Counter[str]]:
        folder = tmp_path_factory.mktemp("whole")
        project = make_project(folder / "project", endpoint.url, kind)
        found = finish(start(project, CALLS=str(folder / "calls")))
        return project, found, Counter((folder / "calls").read_text().splitlines())

    return made


@pytest.mark.parametrize(
    "kind", ["constant", *(pytest.param(k, marks=pytest.mark.long) for k in ("attribute", "field"))]
)
def test_it_is_learned_promoted_and_shipped(whole: Any, kind: str) -> None:
    project, found, _ = whole(kind)
    assert found["verdict"] == "promote", found
    before, after = changed_lines(project, found["branch"])
    assert before[1:] in ((project / "agent.py").read_text() + YAML).splitlines()
    assert "high" in after


@pytest.mark.long
def test_kills_in_the_middle_change_nothing_and_repeat_nothing(
    tmp_path: Path, endpoint: Endpoint, whole: Any
) -> None:
    _, expected, expected_calls = whole("field")
    project, calls = make_project(tmp_path / "project", endpoint.url, "field"), tmp_path / "calls"
    for wanted in (20, 60):
        process = start(project, CALLS=str(calls))
        deadline = time.monotonic() + 120
        while process.poll() is None and _lines(calls) < wanted:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        process.kill()
        process.communicate()
    found = finish(start(project, CALLS=str(calls)))
    same = (*("candidate_id", "run", "stage", "branch", "verdict", "pairs", "e_value"), "rollouts")
    assert {key: found[key] for key in same} == {key: expected[key] for key in same}
    assert Counter(calls.read_text().splitlines()) == expected_calls


def _lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


def test_without_an_import_per_candidate_nothing_is_spent_and_the_hint_names_it(
    tmp_path: Path, endpoint: Endpoint
) -> None:
    project = make_project(tmp_path / "project", endpoint.url, "attribute")
    config = project / "ratchet.toml"
    config.write_text(config.read_text().replace("import_per_candidate = true\n", ""))
    refused = run(project, "improve")
    assert refused.returncode == 2
    assert "reads 'desk' while it is imported" in refused.stderr
    assert "import_per_candidate = true" in refused.stderr
