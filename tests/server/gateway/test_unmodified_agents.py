"""Programs written with the providers' own libraries, unchanged but for their base URL.

The model behind the gateway is a simulator (`model_simulator.py`); all else is real.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ratchet.server.gateway import Upstream
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from ratchet.types import (
    Activation,
    AgentSettings,
    Candidate,
    PromptTemplate,
    Rollout,
    Span,
    version_of,
)
from tests import interpreters
from tests.node_packages import CACHE, installed, node
from tests.server.gateway.model_simulator import model_simulator
from tests.server.gateway.upstreams import StubUpstream
from tests.serving import RunningServer

REPOSITORY = Path(__file__).parents[3]
AGENTS = REPOSITORY / "tests" / "agents"

SOURCE = PromptTemplate(
    "You are the travel assistant of {company}.\nToday is {date}. Look the weather up before you"
    " answer.\nAnswer in one sentence."
)
FRENCH = PromptTemplate("You help travellers of {company}. It is {date}. Answer in French.")
NAME = "travel.system"


def node_agent() -> list[str]:
    """The command of the Node program, with its package installed as its lock file says."""
    source = AGENTS / "node_openai"
    folder = installed(source)
    # A module is looked for in the folders above the program.
    program = folder / f"agent.{os.getpid()}.mjs"
    shutil.copy(source / "agent.mjs", program)
    return [node(), str(program)]


def python_agent() -> list[str]:
    """The command of the Python program."""
    return [sys.executable, str(AGENTS / "python_anthropic" / "agent.py")]


@pytest.fixture(
    params=[pytest.param(node_agent, marks=pytest.mark.long), python_agent],
    ids=["node-openai", "python-anthropic"],
)
def program(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Command of an agent."""
    command = request.param()
    yield command
    if command[1].startswith(str(CACHE)):
        Path(command[1]).unlink()


@pytest.fixture
def simulator() -> Iterator[StubUpstream]:
    """A simulated model."""
    made = model_simulator()
    yield made
    made.close()


@pytest.fixture
def site(
    serving: Callable[..., RunningServer], sqlite_url: str, simulator: StubUpstream
) -> RunningServer:
    """A server whose upstreams are the simulator, in either dialect."""
    upstreams = (
        Upstream(name="one", dialect="openai", base_url=simulator.url, key_env="ONE_KEY"),
        Upstream(name="two", dialect="anthropic", base_url=simulator.url, key_env="TWO_KEY"),
    )
    keys = {"ONE_KEY": "provider-key-1", "TWO_KEY": "provider-key-2"}
    return serving(sqlite_url, ServeSettings(port=0, upstreams=upstreams), environ=keys)


@pytest.fixture
def disk(sqlite_url: str, site: RunningServer) -> Iterator[Store]:
    """The server's store."""
    with Store.open(sqlite_url) as opened:
        yield opened


def task(number: int) -> dict[str, str]:
    city = ("Oslo", "Rome")[number % 2]
    return {
        "company": ("ACME", "Globex", "Initech {x}")[number % 3],
        "date": f"2026-11-{number + 1:02}",
        "question": f"What is the weather in {city}?",
    }


def english(number: int) -> str:
    return ("Oslo has snow.", "Rome has sun.")[number % 2]


def french(number: int) -> str:
    return ("Il y a snow à Oslo.", "Il y a sun à Rome.")[number % 2]


def run_live(program: list[str], site: RunningServer, number: int, agent: str = "travel") -> str:
    """The answer of the program as a live agent."""
    environ = {
        **os.environ,
        "OPENAI_BASE_URL": f"{site.url}/gateway/{agent}/openai/v1",
        "OPENAI_API_KEY": "none",
        "ANTHROPIC_BASE_URL": f"{site.url}/gateway/{agent}/anthropic",
        "ANTHROPIC_API_KEY": "none",
    }
    given = json.dumps({"input": task(number)})
    done = subprocess.run(
        program, input=given, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["answer"])


def live_spans(store: Store, count: int) -> list[Span]:
    """The newest spans of the live agent, once there are so many."""
    deadline = time.monotonic() + 20
    while True:
        found, _ = store.spans.live("travel", limit=1000)
        if len(found) >= count or time.monotonic() > deadline:
            assert len(found) == count
            return found
        time.sleep(0.01)


def ratchet(*arguments: str) -> dict[str, Any]:
    """Run a command and read its JSON."""
    done = interpreters.run(
        [sys.executable, "-m", "ratchet", *arguments, "--json"],
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check_calls(spans: list[Span], recognised: str, sent: str) -> None:
    """Both calls of a task are there, streamed and with tools, with the prompt that was sent."""
    assert len(spans) == 2
    for span in spans:
        attributes = span.attributes
        assert span.status == "ok"
        assert attributes["gen_ai.request.stream"] is True
        assert attributes["gen_ai.response.time_to_first_chunk"] > 0
        assert attributes["gen_ai.usage.input_tokens"] == 60
        assert attributes["gen_ai.usage.output_tokens"] == 12
        assert attributes["ratchet.cost_usd"] > 0
        assert json.loads(attributes["gen_ai.tool.definitions"])[0]["name"] == "weather"
        assert attributes["ratchet.prompt.name"] == NAME
        assert attributes["ratchet.prompt.version"] == recognised
        assert attributes["ratchet.prompt.candidate_version"] == sent
    first, last = sorted(spans, key=lambda span: span.start_ns)
    assert '"type":"tool_call"' in first.attributes["gen_ai.output.messages"]
    assert '"type":"tool_call_response"' in last.attributes["gen_ai.input.messages"]


@pytest.mark.long
def test_the_prompts_of_a_live_program_are_discovered_and_then_replaced(
    program: list[str], site: RunningServer, disk: Store, simulator: StubUpstream
) -> None:
    # It works, and is recorded.
    assert [run_live(program, site, number) for number in range(2)] == [english(0), english(1)]
    live_spans(disk, 4)
    keys = {seen.header("authorization") or seen.header("x-api-key") for seen in simulator.seen}
    assert keys <= {"Bearer provider-key-1", "provider-key-2"}

    # Its prompt is found in what was recorded.
    found = ratchet(
        "prompts", "discover", "--agent", "travel", "--register", "--store", site.store_url
    )
    (proposal,) = found["proposals"]
    assert (proposal["name"], proposal["count"]) == (NAME, 4)
    slots = [slot["name"] for slot in proposal["slots"]]
    assert len(slots) == 2
    template = proposal["template"]
    assert template.startswith("You are the travel assistant of {")
    assert template.endswith(" Look the weather up before you answer.\nAnswer in one sentence.")

    # Another text takes its place once it is active, and only when that is switched on.
    better = PromptTemplate(FRENCH.text.format(company=f"{{{slots[0]}}}", date=f"{{{slots[1]}}}"))
    candidate = Candidate.of({NAME: better})
    with site.client() as client:
        resources = {NAME: {"type": "prompt", "text": better.text}}
        made = client.post("/v1/candidates", json={"resources": resources})
        assert made.json() == {"id": candidate.id}
        body = {"candidate_id": candidate.id}
        assert client.put("/v1/agents/travel/active", json=body).status_code == 200
    assert run_live(program, site, 2) == english(2)
    live_spans(disk, 6)
    ratchet("prompts", "on", "travel", "--store", site.store_url)
    deadline = time.monotonic() + 20
    recorded = 6
    spans: list[Span] = []
    # The server looks every two seconds, which may be between the two calls of a run.
    while not spans or any(span.attributes.get("ratchet.prompt.name") != NAME for span in spans):
        assert time.monotonic() < deadline
        answer = run_live(program, site, 5)
        recorded += 2
        spans = live_spans(disk, recorded)[:2]
    assert answer == french(5)
    check_calls(spans, proposal["version"], version_of(better))
    assert all("Answer in French." in json.dumps(span.attributes) for span in spans)
    system = str(simulator.seen[-1].json.get("system", simulator.seen[-1].json["messages"][0]))
    assert "You help travellers of Initech {x}. It is 2026-11-06." in system


def test_a_runner_runs_a_program_with_each_rollouts_own_prompt(
    program: list[str], site: RunningServer, disk: Store
) -> None:
    source, better = Candidate.of({NAME: SOURCE}), Candidate.of({NAME: FRENCH})
    for candidate in (source, better):
        disk.candidates.put(candidate)
    disk.agents.put(AgentSettings(name="travel", substitute=True), time.time())
    # What is active concerns live traffic alone.
    disk.agents.activate(Activation(agent="travel", candidate_id=source.id, activated_at=1.0))
    rollouts = [
        Rollout(id=label, queue="travel", candidate_id=candidate.id, task_id="t", input=task(1))
        for label, candidate in (("source", source), ("better", better))
    ]
    disk.rollouts.create(rollouts, time.time())
    ratchet(
        "runner",
        *("--server", site.url),
        *("--queue", "travel"),
        *("--command", shlex.join(program)),
        *("--max-idle", "0.5"),
    )
    found = disk.rollouts.get(["source", "better"])
    for label, says, sent in (("source", english, SOURCE), ("better", french, FRENCH)):
        rollout = found[label]
        assert rollout.status == "succeeded", rollout.error
        assert rollout.output == {"answer": says(1)}
        assert rollout.cost_usd > 0
        spans = disk.spans.of(label)
        calls = [span for span in spans if "gen_ai.request.model" in span.attributes]
        check_calls(calls, version_of(SOURCE), version_of(sent))
        # They belong to the attempt's trace, whose own span the runner reports.
        (root,) = [span for span in spans if span not in calls]
        assert {span.trace_id for span in calls} == {root.trace_id}
