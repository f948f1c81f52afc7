"""`ratchet migrate`: another model takes the place of an agent's own once it is proved no worse.

The models are a simulator; the gateway, the commands and the git repositories are real.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ratchet.autopilot.cycle.live_stages import LiveStages
from ratchet.autopilot.cycle.live_traffic import ProjectTraffic
from ratchet.autopilot.project import Project as AutopilotProject
from ratchet.cli.project_server import project_server
from ratchet.types import Activation, Candidate, Cycle, Model, short_version
from tests.autopilot.live_traces import START_S, record
from tests.cli.conftest import Project
from tests.cli.simulated_model import completion
from tests.server.gateway.upstreams import Seen, StubUpstream, Wire, reply

AGENT = '''"""Adds two numbers by asking a model."""

import json
import os
import sys
import urllib.request

MODEL = "large"
RULES = "You add numbers. Answer with the sum alone."


def ask(question):
    request = urllib.request.Request(
        f"{os.environ['OPENAI_BASE_URL']}/chat/completions",
        json.dumps(
            {
                "model": MODEL,
                "messages": [
                    {"role": "system", "content": RULES},
                    {"role": "user", "content": question},
                ],
            }
        ).encode(),
        {"content-type": "application/json", "authorization": "Bearer none"},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


if __name__ == "__main__":
    print(ask(sys.argv[1]))
'''

CONFIG = """
[agent]
entry = "agent:ask"
name = "adder"

[[evaluators]]
use = "exact_match"

[upstreams.simulated]
dialect = "openai"
base_url = "{url}"

[improve]
algorithm = "auto"

[improve.budget]
rollouts = {rollouts}

[tasks]
near_duplicates = false

[tasks.split]
train = 0.3
val = 0.15
test = 0.55

[prove]
repetitions = 1

[prices.large]
input = 10
output = 30

[prices."{priced}"]
input = 1
output = 3

[[guardrails]]
metric = "latency"
off = true
"""


def simulator(seen: Seen, wire: Wire) -> None:
    """`large`, `medium`, `small` add; `mute` never answers; `shown` adds after an example."""
    body = seen.json
    question = body["messages"][-1]["content"]
    left, right = re.findall(r"\d+", question)[-2:]
    prompts = "".join(message["content"] for message in body["messages"])
    able = {"large": True, "medium": True, "small": True, "shown": "Output: " in prompts}
    if body["model"] not in able and body["model"] != "mute":
        wire.send(reply({"error": {"message": f"no model {body['model']}"}}, status=404))
        return
    total = str(int(left) + int(right)) if able.get(body["model"]) else "I cannot say."
    wire.send(reply(completion(total) | {"model": body["model"]}))


@pytest.fixture
def models() -> Iterator[StubUpstream]:
    """The simulated models."""
    upstream = StubUpstream(simulator)
    yield upstream
    upstream.close()


def adder(root: Path, models: StubUpstream, priced: str, *, rollouts: int = 60) -> Project:
    """A project whose agent asks for the model `large`."""
    root.mkdir()
    project = Project(root)
    project.write("agent.py", AGENT)
    project.write("ratchet.toml", CONFIG.format(url=models.url, priced=priced, rollouts=rollouts))
    tasks = [
        {"id": f"t{number}", "input": f"{number}+{7 * number}", "expected": str(8 * number)}
        for number in range(40)
    ]
    project.write("tasks.jsonl", "\n".join(map(json.dumps, tasks)) + "\n")
    project.write(".gitignore", ".ratchet/\n__pycache__/\n")
    project.git("init", "-q", "-b", "main")
    project.commit("agent")
    return project


def test_an_equal_model_is_proved_no_worse_and_patched_into_the_source(
    tmp_path: Path, models: StubUpstream
) -> None:
    project = adder(tmp_path / "adder", models, "small")
    found: dict[str, Any] = project.json("migrate", "--to", "small")
    assert (found["verdict"], found["baseline"], found["candidate"]) == ("promote", 1.0, 1.0)
    branch = str(found["branch"])
    changes = project.git("diff", "-U0", f"main..{branch}", "--", "agent.py").splitlines()
    assert [line for line in changes if line[:1] in "+-" and line[:3] not in ("+++", "---")] == [
        '-MODEL = "large"',
        '+MODEL = "small"',
    ]
    subject = project.git("log", "-1", "--format=%s", branch)
    assert subject.startswith("Change model: same quality (+0.000, at worst -0.")
    assert "90 % cheaper" in subject
    evidence = json.loads(Path(str(found["evidence"])).read_text())
    assert evidence["plan"]["margin"] > 0
    assert project.ratchet("verify", str(found["evidence"])).returncode == 0
    # Another search of the same agent takes its baseline's results from the first.
    again: dict[str, Any] = project.json(
        "migrate", "--to", "small", "--rollouts", "61", "--no-ship"
    )
    assert again["verdict"] == "promote"


def test_prompts_are_learned_for_a_model_that_scores_lower(
    tmp_path: Path, models: StubUpstream
) -> None:
    project = adder(tmp_path / "adder", models, "shown", rollouts=240)
    config = (project.root / "ratchet.toml").read_text()
    command = f'command = "{sys.executable} agent.py {{input}}"'  # whose prompts are in its calls
    project.write("ratchet.toml", config.replace('entry = "agent:ask"', command))
    project.commit("a program")
    found: dict[str, Any] = project.json("migrate", "--to", "shown", "--from", "large")
    assert found["verdict"] == "promote"
    patched = project.git("show", f"{found['branch']}:agent.py")
    assert 'MODEL = "shown"' in patched
    assert "Output: " in patched


def test_a_worse_model_is_not_shipped_and_the_report_says_by_how_much(
    tmp_path: Path, models: StubUpstream
) -> None:
    project = adder(tmp_path / "adder", models, "mute")
    found = project.ratchet("migrate", "--to", "mute", "--no-learn")
    assert found.returncode == 0
    assert "Not reached: the best candidate scores -1.000" in " ".join(found.stdout.split())
    # Another move to the same model is another candidate, and a model that is not asked for none.
    refused = project.ratchet("migrate", "--from", "medium", "--to", "mute")
    assert "The agent's calls use large, not medium." in " ".join(refused.stderr.split())
    assert project.git("branch", "--list").split() == ["*", "main"]


def test_a_model_that_does_not_answer_is_said_at_once(tmp_path: Path, models: StubUpstream) -> None:
    project = adder(tmp_path / "adder", models, "absent")
    found = project.ratchet("migrate", "--to", "absent", "--from", "large")
    assert found.returncode != 0
    assert "no model absent" in " ".join(found.stderr.split())


def test_of_two_models_the_one_that_is_named_is_moved_and_then_the_other(
    tmp_path: Path, models: StubUpstream
) -> None:
    project = adder(tmp_path / "adder", models, "small")
    chosen = 'def chosen(question):\n    return "large" if len(question) % 2 else "medium"\n'
    two = AGENT.replace('MODEL = "large"', chosen).replace(
        '"model": MODEL', '"model": chosen(question)'
    )
    project.write("agent.py", two)
    config = (project.root / "ratchet.toml").read_text()
    project.write("ratchet.toml", config + "\n[prices.medium]\ninput = 5\noutput = 15\n")
    project.commit("two models")
    several = project.ratchet("migrate", "--to", "small")
    assert "The agent uses several models" in several.stderr
    assert "--from" in several.stderr
    moves = {}
    for old in ("medium", "large"):
        moves[old] = project.json("migrate", "--from", old, "--to", "small")
        assert moves[old]["verdict"] == "promote", moves[old]["message"]
    assert moves["medium"]["candidate_id"] != moves["large"]["candidate_id"]
    kept = {"medium": 'return "large" if len(question) % 2 else "small"'}
    kept["large"] = 'return "small" if len(question) % 2 else "medium"'
    for old, line in kept.items():
        assert line in project.git("show", f"{moves[old]['branch']}:agent.py")


SUMS = """
import ratchet


@ratchet.evaluator
def is_a_number(output):
    return float(str(output).isdigit())
"""


@pytest.mark.parametrize("merged", [False, True], ids=["at the gateway", "merged"])
def test_after_a_move_live_inputs_are_answered_by_the_old_model_again(
    tmp_path: Path, models: StubUpstream, merged: bool
) -> None:
    project = adder(tmp_path / "adder", models, "mute")
    project.write("agent.py", AGENT.replace('"large"', '"mute"' if merged else '"large"'))
    project.write("sums.py", SUMS)
    project.write(
        "ratchet.toml",
        (project.root / "ratchet.toml").read_text()
        + '[[evaluators]]\nuse = "sums:is_a_number"\nvouched = true\n'
        + '[autopilot]\nevaluator = "is_a_number"\n[live]\nmirror = true\n',
    )
    large = Candidate.of({"model": Model("large", in_calls="large")})
    mute = large.derive({"model": Model("mute", in_calls="large")}, algorithm="migrate")
    found = AutopilotProject.find(project.root, project_server)
    with found.open_store() as store:
        for candidate in (large, mute):
            store.candidates.put(candidate)
        if not merged:
            store.agents.activate(Activation(agent="adder", candidate_id=mute.id, activated_at=1.0))
        ran = f"model@{short_version(mute.resources['model'])}"
        for number in range(40):
            record(
                store,
                number,
                f"{number}+{number}",
                "I cannot say.",
                agent="adder",
                **({"ratchet.resources": [ran]} if merged else {"ratchet.candidate_id": mute.id}),
            )
        now = START_S + 1_000.0
        cycle = Cycle(
            id="cycle",
            agent="adder",
            state="watch",
            trigger="",
            started_at=float(START_S),
            entered_at=float(START_S),
            updated_at=float(START_S),
            request="https://forge/1" if merged else "",
            baseline_id=large.id,
            candidate_id=mute.id,
        )
        traffic = ProjectTraffic(found, store, "adder", lambda: now, print)
        stages = LiveStages(found, store, traffic, lambda: now)
        measured = asyncio.run(stages.watch(cycle))
    assert measured.decision.verdict == "alarm", measured.decision.sentence
    assert "the old model scores 1.000 and the new one 0.000" in measured.decision.sentence


DECLARED = '''"""Adds two numbers by asking a model, the small one first."""

import json
import os
import urllib.request

import ratchet

MODEL = ratchet.model("answers", "large", choices=["small", "mute"], first="")
RULES = "You add numbers. Answer with the sum alone."


@ratchet.agent
def ask(question):
    return MODEL.ask(lambda model: complete(model, question), passes=str.isdigit)


@ratchet.llm_call
def complete(model, question):
    messages = [
        {"role": "system", "content": RULES},
        {"role": "user", "content": question},
    ]
    request = urllib.request.Request(
        f"{os.environ['OPENAI_BASE_URL']}/chat/completions",
        json.dumps({"model": model, "messages": messages}).encode(),
        {"content-type": "application/json", "authorization": "Bearer none"},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]
'''


def test_a_declared_model_is_patched_where_it_is_declared(
    tmp_path: Path, models: StubUpstream
) -> None:
    project = adder(tmp_path / "adder", models, "small")
    project.write("agent.py", DECLARED)
    config = (project.root / "ratchet.toml").read_text()
    # Its calls report no usage.
    project.write("ratchet.toml", f'{config}\n[[guardrails]]\nmetric = "cost"\noff = true\n')
    project.commit("declared")
    environ = {"OPENAI_BASE_URL": f"{models.url}/v1"}
    done = project.ratchet("migrate", "--to", "small", "--json", env=environ)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["verdict"] == "promote", found["message"]
    patched = project.git("show", f"{found['branch']}:agent.py")
    assert 'ratchet.model("answers", "small", choices=["small", "mute"], first="")' in patched


def test_the_cheapest_model_that_is_no_worse_is_found_where_cost_is_the_objective(
    tmp_path: Path, models: StubUpstream
) -> None:
    project = adder(tmp_path / "adder", models, "small", rollouts=200)
    config = (project.root / "ratchet.toml").read_text()
    config += """
[objective]
minimise = "cost"
subject_to = [{ metric = "exact_match", margin = 0.3 }]

[[agent.models]]
model = "large"
choices = ["mute", "small"]

[prices.mute]
input = 0.1
output = 0.3
"""
    project.write("ratchet.toml", config)
    project.commit("what to save")
    found = project.json("improve")
    assert found["verdict"] == "promote", found["message"]
    assert found["branch"], found
    patched = project.git("show", f"{found['branch']}:agent.py")
    assert 'MODEL = "small"' in patched
    guardrails = json.loads(Path(str(found["evidence"])).read_text())["plan"]["guardrails"]
    assert {"metric": "cost", "margin": 0.0}.items() <= guardrails[-1].items()
