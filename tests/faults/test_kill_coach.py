"""`kill -9` of `ratchet improve` while it asks a coach: no answer is paid for twice."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.llm.endpoint import Endpoint, Reaction, Request, answer, error

pytest.importorskip("gepa", reason="the extra gepa is not installed")

KILLS = 4 if os.environ.get("RATCHET_LONG_FAULTS") else 2

KEY = "sk-kill-0123456789abcdefghijklmnopqrstuv"

AGENT = """
import ratchet

SYSTEM = ratchet.prompt("system", "Book a room.")
RULES = ("capacity", "equipment", "distance", "access", "ties", "floor", "light", "noise")


@ratchet.agent
def answer(number):
    return 1.0 if RULES[number % len(RULES)] in str(SYSTEM) else 0.0


@ratchet.evaluator
def obeys(output):
    return output
"""

CONFIG = """
[agent]
entry = "agent:answer"

[[evaluators]]
use = "agent:obeys"

[run]
executor = "process"
concurrency = 2
timeout_s = 20

[coach]
base_url = "{url}"

[[coach.models]]
name = "gpt-4o-mini"
weight = 2.0

[[coach.models]]
name = "other-model"

[improve]
algorithm = "gepa"
options = {{ reflection_minibatch_size = 12 }}

[improve.budget]
rollouts = {rollouts}

[[guardrails]]
metric = "latency"
off = true
"""

RULES = ("capacity", "equipment", "distance", "access", "ties", "floor", "light", "noise")

CHECK = "Answer with the word: ready"


def coach(request: Request) -> Reaction:
    """The last prompt that it is shown with one more rule; its luck is that of the question."""
    asked = "\n".join(message["content"] for message in request.body["messages"])
    found = re.findall(r"Book a room\.[^\n`]*", asked)
    luck = random.Random(asked)
    text = f"{found[-1] if found else 'ready'} Mind {luck.choice(RULES)}."
    made = answer(f"```\n{text}\n```")
    return msgspec.structs.replace(made, delay_s=luck.uniform(0.0, 0.03))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(coach) as served:
        yield served


def make_project(folder: Path, url: str, *, count: int = 240, rollouts: int = 700) -> Path:
    folder.mkdir()
    (folder / "agent.py").write_text(AGENT)
    (folder / "ratchet.toml").write_text(CONFIG.format(url=url, rollouts=rollouts))
    tasks = [json.dumps({"id": f"t{n}", "input": n}) for n in range(count)]
    (folder / "tasks.jsonl").write_text("\n".join(tasks) + "\n")
    (folder / ".gitignore").write_text("__pycache__/\n")
    identity = ["-c", "user.name=t", "-c", "user.email=t@t.invalid"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "agent"]):
        subprocess.run(["git", *identity, *arguments], cwd=folder, check=True)
    return folder


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ratchet", *arguments]


def start(project: Path, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("improve", "--json", "--seed", "7"),
        cwd=project,
        env={**os.environ, "OPENAI_API_KEY": KEY, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return found


def asked(endpoint: Endpoint, since: int = 0) -> Counter[str]:
    return Counter(json.dumps(request.body) for request in endpoint.requests[since:])


@pytest.fixture(scope="module")
def uninterrupted(
    tmp_path_factory: pytest.TempPathFactory, endpoint: Endpoint
) -> tuple[Path, dict[str, Any], Counter[str]]:
    project = make_project(tmp_path_factory.mktemp("whole") / "project", endpoint.url)
    since = len(endpoint.requests)
    found = finish(start(project))
    return project, found, asked(endpoint, since)


Whole = tuple[Path, dict[str, Any], Counter[str]]


def test_kills_while_a_coach_is_asked_repeat_only_what_was_under_way(
    tmp_path: Path, endpoint: Endpoint, uninterrupted: Whole
) -> None:
    _, whole, whole_asked = uninterrupted
    assert whole["verdict"] == "promote", whole
    assert whole["coach_calls"] >= 8
    assert len({json.loads(body)["model"] for body in whole_asked}) == 2
    project = make_project(tmp_path / "project", endpoint.url)
    since = len(endpoint.requests)
    moments = random.Random(int(os.environ.get("RATCHET_TEST_SEED", "1")))
    under_way: Counter[str] = Counter()
    for _ in range(KILLS):
        # Counted in requests from now, a moment falls into the asking whatever the pace is.
        wanted = len(endpoint.requests) + moments.randint(1, 3)
        process = start(project)
        deadline = time.monotonic() + 120
        while len(endpoint.requests) < wanted and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        process.kill()
        process.communicate()
        if endpoint.requests:
            under_way[json.dumps(endpoint.requests[-1].body)] += 1
    found = finish(start(project))
    made = asked(endpoint, since)
    assert set(made) == set(whole_asked)
    repeated = made - whole_asked
    # The check of all models is one entry of the journal: a kill may repeat it as a whole.
    checks = Counter({body: n for body, n in repeated.items() if CHECK in body})
    assert all(times <= KILLS for times in checks.values())
    assert (repeated - checks).total() <= KILLS
    assert repeated - checks <= under_way
    for key in ("candidate_id", "run", "stage", "branch", "verdict", "pairs", "e_value"):
        assert found[key] == whole[key], key
    for key in ("rollouts", "coach_calls", "coach_dollars", "dollars"):
        assert found[key] == whole[key], key


def test_what_the_coach_took_is_shown(endpoint: Endpoint, uninterrupted: Whole) -> None:
    project, whole, whole_asked = uninterrupted
    check = sum(CHECK in body for body in whole_asked)
    assert check == 2  # models
    assert whole["coach_calls"] == whole_asked.total() - check
    each = (100 * 0.15 + 10 * 0.6) / 1e6
    assert whole["coach_dollars"] == pytest.approx(whole_asked.total() * each)
    told = run(project, "status").stdout
    assert f"{whole['coach_calls']} coach calls" in told
    assert "of it for the coach" in told


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=project, capture_output=True, text=True, check=False
    )


def test_each_call_is_a_trace_without_the_key(endpoint: Endpoint, uninterrupted: Whole) -> None:
    project, whole, whole_asked = uninterrupted
    listed = run(project, "traces", "--agent", "coach", "--json", "-n", "1000").stdout
    traces = json.loads(listed)["traces"]
    assert len(traces) == whole_asked.total()
    names = {trace["name"] for trace in traces}
    assert "coach gepa/000000" in names
    newest = next(trace for trace in traces if trace["name"] == "coach gepa/000000")
    assert (newest["input_tokens"], newest["output_tokens"]) == (100, 10)
    assert newest["conversation_id"] == whole["run"]
    shown = run(project, "show", newest["trace_id"]).stdout
    assert "chat gpt-4o-mini" in shown or "chat other-model" in shown
    for path in (project / ".ratchet").rglob("*"):
        if path.is_file():
            assert KEY.encode()[3:] not in path.read_bytes(), path


def test_a_key_that_is_wrong_is_said_before_anything_is_spent(tmp_path: Path) -> None:
    with Endpoint(lambda _: error(401, f"Incorrect API key provided: {KEY}")) as refusing:
        project = make_project(tmp_path / "project", refusing.url, count=110, rollouts=90)
        process = start(project)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 8
        assert "OPENAI_API_KEY is refused" in err
        assert KEY[3:] not in err
        assert "Traceback" not in err
        assert len(refusing.requests) == 2  # one for each model
        assert json.loads(run(project, "status", "--json").stdout)["summary"]["rollouts"] == {}
        # Mended, the same command goes on.
        refusing.react = coach
        assert finish(start(project))["stage"] in ("shipped", "no_gain")


def test_a_key_that_is_missing_is_said_before_anything_is_spent(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", "https://api.openai.com/v1")
    process = start(project, OPENAI_API_KEY="")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 8
    assert "the environment variable OPENAI_API_KEY is not set" in " ".join(err.split())
    assert json.loads(run(project, "status", "--json").stdout)["summary"]["rollouts"] == {}
