"""What Ratchet sends to models: redacted by the project's rules, and recorded as it was sent."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ratchet.observe.dialects.names import INPUT_MESSAGES
from ratchet.store import Store
from ratchet.types.trace import TraceFilter
from tests.cli.conftest import INLINE, MakeProject, Project
from tests.llm.endpoint import Endpoint, Reaction, Request, answer

PHONE, MAIL, NAME, OWNER = "+49 170 8123456", "ida@customer.org", "Zebulon Quist", "Miller, Ann"
HOTLINE = "+44 20 7946 0958"
PRIVATE = (PHONE, "8123456", MAIL, NAME, OWNER, "Ann", HOTLINE)

AGENT = f'''
import ratchet

SYSTEM = ratchet.prompt("system", "Say who called. Our hotline is {HOTLINE}.")


@ratchet.agent
def reply(call):
    """Answers calls such as those of {NAME}."""
    text = str(SYSTEM)
    return call if "politely" in text else call["text"]
'''

CONFIG = """
[agent]
entry = "agent:reply"

[[evaluators]]
use = "judge"
name = "helpful"
criteria = ["Is {name} answered?"]
max_tokens = 500

[coach]
model = "m"
base_url = "{url}"
key_env = ""
input_price = 1.0
output_price = 1.0

[improve]
algorithm = "apo"

[improve.budget]
rollouts = 60
coach_calls = 6

[redaction]
keys = ["owner"]

[redaction.patterns]
customer = "Zebulon [A-Z][a-z]+"
"""


def reacting(rewrite: str) -> Callable[[Request], Reaction]:
    """A judge, a generator, a synthesizer and a coach, told apart by what they are asked for."""

    def react(request: Request) -> Reaction:
        form = json.dumps(request.body.get("response_format", {}))
        if '"c1"' in form:
            verdict = "no" if len(json.dumps(request.body)) % 2 else "yes"
            return answer(json.dumps({"c1": {"reason": "So.", "verdict": verdict}}))
        if '"evaluators"' in form:
            code = {"name": "calls_back", "why": "It calls.", "criteria": []}
            code["code"] = "def calls_back(output):\n    return '[redacted:phone]' in output\n"
            asks = {"name": "kind", "why": "Tone.", "code": "", "criteria": ["Is it kind?"]}
            return answer(json.dumps({"evaluators": [code, asks]}))
        if '"inputs"' in form:
            texts = ["Call me at [redacted:phone]", "Call me back", "Never call", "Who is it?"]
            made = [
                {"call": {"owner": f"somebody {n}", "text": text}} for n, text in enumerate(texts)
            ]
            return answer(json.dumps({"inputs": made}))
        if "between two lines of" in request.said:
            return answer(f"````text\n{rewrite}\n````")
        return answer("- It should be polite.")

    return react


def project_at(make_project: MakeProject, endpoint: Endpoint) -> Project:
    config = CONFIG.replace("{url}", endpoint.url).replace("{name}", NAME) + INLINE
    project = make_project(agent=AGENT, config=config)
    inputs = [
        {"owner": OWNER, "text": f"{NAME} ({MAIL}) wants call {n} at {PHONE}"} for n in range(60)
    ]
    lines = [
        json.dumps({"id": f"t{n}", "input": {"call": each}, "expected": each["text"]})
        for n, each in enumerate(inputs)
    ]
    project.write("tasks.jsonl", "\n".join(lines) + "\n")
    project.commit("tasks")
    return project


def sent(endpoint: Endpoint) -> list[list[tuple[str, str]]]:
    return [
        [(message["role"], message["content"]) for message in request.body["messages"]]
        for request in endpoint.requests
    ]


def recorded(project: Project) -> list[list[tuple[str, str]]]:
    """The messages of each request in the stored traces of the coach and of judges."""
    found = []
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        for agent in ("coach", "judge"):
            traces, _ = store.traces.list(TraceFilter(agent=agent), limit=500)
            for trace in traces:
                detail = store.traces.get(trace.trace_id)
                assert detail is not None
                for span in detail.spans:
                    if INPUT_MESSAGES in span.attributes:
                        messages = json.loads(span.attributes[INPUT_MESSAGES])
                        found.append([(m["role"], m["parts"][0]["content"]) for m in messages])
    return found


def check_private(endpoint: Endpoint, project: Project) -> None:
    """Nothing private was sent, marks were explained, and the traces show what was sent."""
    assert endpoint.requests
    for request in endpoint.requests:
        body = json.dumps(request.body, ensure_ascii=False)
        assert [value for value in PRIVATE if value in body] == []
        explained = "stand for values that were removed" in body
        assert explained == bool(re.search(r"\[redacted:", json.dumps(request.body["messages"])))
    assert any("[redacted:customer]" in str(request.body) for request in endpoint.requests)
    assert Counter(map(tuple, recorded(project))) == Counter(map(tuple, sent(endpoint)))


@pytest.mark.parametrize(
    "command",
    [
        ("eval", "--limit", "4"),
        ("evaluators", "generate", "--ask"),
        ("datasets", "synthesize", "tasks", "-n", "4", "--method", "coach", "--open"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_no_command_sends_what_the_projects_rules_redact(
    make_project: MakeProject, command: tuple[str, ...]
) -> None:
    with Endpoint(reacting("")) as endpoint:
        project = project_at(make_project, endpoint)
        if command[0] == "evaluators":
            project.json("eval", "--split", "train", "--limit", "30")
        done = project.ratchet(*command, "--json")
        assert done.returncode == 0, done.stderr
        check_private(endpoint, project)
    said: dict[str, Any] = json.loads(done.stdout)
    if command[0] == "evaluators":
        assert "'calls_back' was dropped: it holds [redacted:phone]" in done.stderr
        assert "calls_back" not in done.stdout
    if command[0] == "datasets":
        assert "[redacted:" not in json.dumps(said["tasks"])
        assert [reason for reason in said["dropped"] if "[redacted:phone]" in reason]


@pytest.mark.parametrize(
    ("rewrite", "prompt", "said"),
    [
        (
            "Answer politely. Our hotline is [redacted:phone].",
            f"Answer politely. Our hotline is {HOTLINE}.",
            "",
        ),
        (
            "Answer politely, as [redacted:customer] wishes.",
            "",
            "A proposal was refused: it contains [redacted:customer]",
        ),
    ],
)
def test_a_rewritten_prompt_keeps_the_agents_own_number_and_gets_no_mark(
    make_project: MakeProject, rewrite: str, prompt: str, said: str
) -> None:
    with Endpoint(reacting(rewrite)) as endpoint:
        project = project_at(make_project, endpoint)
        done = project.ratchet("improve", "--json")
        check_private(endpoint, project)
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        candidates = store.candidates.find("")
    prompts = [str(candidate.resources.get("system", "")) for candidate in candidates]
    if said:
        assert said in done.stderr
    else:
        assert prompt in prompts, (prompts, done.stderr)
