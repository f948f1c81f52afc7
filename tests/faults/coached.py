"""A project that asks a coach, and what it takes to kill it on the way."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from tests import interpreters
from tests.llm.endpoint import Endpoint, Reaction, Request, answer
from tests.repositories import committed

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
vouched = true

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
algorithm = "{algorithm}"
options = {options}

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


GEPA = "{ reflection_minibatch_size = 12 }"


def make_project(
    folder: Path,
    url: str,
    *,
    count: int = 240,
    rollouts: int = 700,
    algorithm: str = "gepa",
    options: str = GEPA,
    agent: str = AGENT,
) -> Path:
    """A project in a git repository, committed."""
    folder.mkdir()
    (folder / "agent.py").write_text(agent)
    config = CONFIG.format(url=url, rollouts=rollouts, algorithm=algorithm, options=options)
    (folder / "ratchet.toml").write_text(config)
    tasks = [json.dumps({"id": f"t{n}", "input": n}) for n in range(count)]
    (folder / "tasks.jsonl").write_text("\n".join(tasks) + "\n")
    return committed(folder)


def command(*arguments: str) -> list[str]:
    """Of Ratchet."""
    return [sys.executable, "-m", "ratchet", *arguments]


def start(project: Path, **environ: str) -> subprocess.Popen[str]:
    """`ratchet improve`, under way."""
    return interpreters.Interpreter(
        command("improve", "--json", "--seed", "7"),
        cwd=project,
        env={**os.environ, "OPENAI_API_KEY": KEY, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What it came to."""
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return found


def asked(endpoint: Endpoint, since: int = 0) -> Counter[str]:
    """How often each request came."""
    return Counter(json.dumps(request.body) for request in endpoint.requests[since:])


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of Ratchet, run to its end."""
    return interpreters.run(command(*arguments), cwd=project)


def kill_on_the_way(
    project: Path, endpoint: Endpoint, kills: int, moments: random.Random
) -> Counter[str]:
    """Kill `ratchet improve` so many times while it asks.

    Returns:
        The requests that were the last before a kill: they may have been under way.
    """
    under_way: Counter[str] = Counter()
    for _ in range(kills):
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
    return under_way


SAME = (
    *("candidate_id", "run", "stage", "branch", "verdict", "pairs", "e_value"),
    *("rollouts", "coach_calls", "coach_dollars", "dollars"),
)
"""What a run that was killed comes to as well."""


def assert_nothing_was_paid_twice(
    made: Counter[str], whole: Counter[str], under_way: Counter[str], kills: int
) -> None:
    """A run that was killed asked what the whole one did, and repeated what was under way."""
    assert set(made) == set(whole)
    repeated = made - whole
    # The check of all models is one entry of the journal: a kill may repeat it as a whole.
    checks = Counter({body: n for body, n in repeated.items() if CHECK in body})
    assert all(times <= kills for times in checks.values())
    assert (repeated - checks).total() <= kills
    assert repeated - checks <= under_way
