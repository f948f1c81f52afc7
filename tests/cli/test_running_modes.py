"""`ratchet run` and `ratchet eval` on agents as they are: a command, a service, an entry.

The model is a simulator; the programs, the gateway and their processes are real.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Project
from tests.cli.test_any_language import MakeAgent
from tests.cli.test_any_language import make_agent as make_agent
from tests.cli.test_any_language import upstream as upstream
from tests.free_ports import free_port
from tests.node_packages import node
from tests.server.gateway.upstreams import StubUpstream

ASKS = """
import json, os, sys, urllib.request
def ask(question):
    body = {"model": "m", "messages": [
        {"role": "system", "content": "You answer for the shop."},
        {"role": "user", "content": question},
    ]}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]["content"]
"""

SERVICE = """
import http from "node:http";
const base = process.env.OPENAI_BASE_URL;
http.createServer(async (request, response) => {
  let text = "";
  for await (const part of request) text += part;
  const { question, session } = JSON.parse(text);
  if (session !== "s1") return response.writeHead(400).end("no session");
  const said = await fetch(base + "/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "m", messages: [
      { role: "system", content: "You answer for the shop." },
      { role: "user", content: question },
    ] }),
  });
  const answer = (await said.json()).choices[0].message.content;
  response.end(JSON.stringify({ data: [{ answer }] }));
}).listen(process.env.PORT ?? 3000);
"""


def tasks_of(project: Project, inputs: list[Any], expected: str = "fig") -> None:
    lines = [
        json.dumps({"id": f"t{n}", "input": i, "expected": expected}) for n, i in enumerate(inputs)
    ]
    project.write("tasks.jsonl", "\n".join(lines) + "\n")


def calls_of(project: Project, rollout: str) -> int:
    """Number of model calls that the store has of a rollout."""
    shown: Any = project.json("show", rollout)
    return sum("gen_ai.request.model" in span["attributes"] for span in shown["spans"])


INPUTS = [
    f"{text} fig"
    for text in (
        *('"quoted"', "--help", "two\nlines", "$(id) `id` $HOME", "it's", "\\n {input}"),
        *("ümlaut 日本", "; exit 1", "*", "{{x}}", "<b>", "100 %s"),
    )
]


def check(project: Project, given: str) -> None:
    """An ad-hoc input runs, all tasks are right, and each rollout has its one model call."""
    ran: Any = project.json("run", given)
    (rollout,) = ran["rollouts"]
    assert (rollout["status"], rollout["output"]) == ("succeeded", "fig"), rollout["error"]
    done: Any = project.json("run", "--split", "all", "--limit", "4")
    assert [each["output"] for each in done["rollouts"]] == ["fig"] * len(done["rollouts"])
    assert [calls_of(project, each["id"]) for each in done["rollouts"]] == [1] * len(
        done["rollouts"]
    )
    found: Any = project.json("eval", "--split", "all")
    assert '"mean": 1.0' in json.dumps(found), found


@pytest.mark.parametrize("place", ["its own port", "a fixed port"])
def test_a_service_in_node_is_started_and_asked(make_agent: MakeAgent, place: str) -> None:
    port = free_port()
    project = make_agent(
        f'url = "http://127.0.0.1:{port}/chat"\nserve = "{node()} service.mjs"\n'
        """body = '{"question": "{input}", "session": "s1"}'\noutput = "data.0.answer\""""
    )
    source = (
        SERVICE
        if place == "its own port"
        else SERVICE.replace("process.env.PORT ?? 3000", str(port))
    )
    project.write("service.mjs", source)
    tasks_of(project, INPUTS)
    check(project, INPUTS[0])
    said = project.ratchet("run", "question 4: fig").stdout
    assert ("one at a time: the service always listens on port" in said) == (
        place == "a fixed port"
    )


def test_an_entry_with_arguments_runs(make_agent: MakeAgent, upstream: StubUpstream) -> None:
    project = make_agent(
        'entry = "agent:Desk.answer"\n\n[agent.arguments]\nquestion = "{input.text}"\n'
        'tone = "kind"\n\n[agent.construct]\ncustomer = 17\n'
    )
    project.write(
        "agent.py",
        "class Desk:\n    def __init__(self, customer):\n        self.customer = customer\n"
        "    async def answer(self, question, tone):\n"
        "        yield f'{tone} {self.customer} '\n        yield question.split()[-1]\n",
    )
    tasks_of(project, [{"text": text} for text in INPUTS], expected="kind 17 fig")
    ran: Any = project.json("run", "--split", "all", "--limit", "12")
    assert [each["output"] for each in ran["rollouts"]] == ["kind 17 fig"] * len(INPUTS)
    wrong = project.ratchet("run", "only a text")
    assert wrong.returncode == 2
    assert "[agent.arguments] question names {input.text}" in wrong.stderr


def test_a_client_made_at_import_calls_for_each_rollout(make_agent: MakeAgent) -> None:
    project = make_agent(
        'entry = "agent:answer"\nprompts = "calls"\n\n[agent.arguments]\n'
        'question = "{input}"\ntone = "kind"\n'
    )
    source = ASKS.replace(
        "def ask(question):", "BASE = os.environ.get('OPENAI_BASE_URL', '')\ndef ask(question):"
    ).replace('os.environ["OPENAI_BASE_URL"] +', "BASE +")
    project.write("agent.py", source + "def answer(question, tone):\n    yield ask(question)\n")
    tasks_of(project, INPUTS)
    check(project, INPUTS[0])


def test_a_call_that_its_client_and_the_gateway_record_is_one(make_agent: MakeAgent) -> None:
    """The client's own instrumentation knows the step around the call; the gateway, the prompt."""
    project = make_agent('entry = "agent:answer"\nprompts = "calls"\n')
    project.write(
        "agent.py",
        "import openai\n\n\ndef answer(question):\n    client = openai.OpenAI()\n"
        '    system = {"role": "system", "content": "You answer for the shop."}\n'
        '    user = {"role": "user", "content": question}\n'
        '    done = client.chat.completions.create(model="m", messages=[system, user])\n'
        "    return done.choices[0].message.content\n",
    )
    tasks_of(project, [f"question {number}: fig" for number in range(10)])
    said = " ".join(project.ratchet("eval", "--split", "all").stdout.split())
    assert "system (agent.py:6, 4 calls)" in said, said
    shown = project.ratchet("run", "What is it: fig").stdout
    assert shown.count("You answer for the shop.") == 2
    assert "its parent is missing" not in shown
    project.commit()
    done = project.ratchet("improve", "--rollouts", "20")
    improved = done.stdout
    assert done.returncode == 0, done.stderr
    assert "Baseline" in improved
    assert "had none of these prompts" not in " ".join(improved.split())
