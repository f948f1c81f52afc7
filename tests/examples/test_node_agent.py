"""The agent in Node, traced with OpenTelemetry's packages: what it does is in the store.

The model is the example's simulator; `ratchet serve`, Node and npm's packages are real.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from ratchet._http import httpx2
from ratchet.types import Rollout, Span
from tests import interpreters
from tests.cli.simulated_model import simulated_model
from tests.examples.room_agent import Site, Started, ordered
from tests.node_packages import installed, node
from tests.repositories import committed

pytestmark = pytest.mark.xdist_group("node")  # what they share is made once

HANDBOOK = Path(__file__).parents[2] / "docs" / "javascript.md"


def said(span: Span, side: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = json.loads(span.attributes[f"gen_ai.{side}.messages"])
    return messages


def test_a_turn_is_one_trace_of_the_agent_its_model_calls_and_its_tool(site: Site) -> None:
    question = "Which room is free on Tuesday for 6 people?"
    turn = site.ask(question)
    assert turn["answer"] == "Cedar on floor 2 is free; it has 8 seats."
    agent, tool, first, last = site.trace(turn["trace_id"], 4)

    assert agent.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert agent.attributes["gen_ai.agent.name"] == "rooms"
    assert agent.attributes["ratchet.input"] == json.dumps(question)
    assert agent.attributes["ratchet.output"] == json.dumps(turn["answer"])
    assert (agent.parent_id, agent.span_id) == (None, turn["span_id"])

    assert tool.attributes["gen_ai.operation.name"] == "execute_tool"
    assert tool.attributes["gen_ai.tool.name"] == "find_rooms"
    wanted = {"day": "tuesday", "people": 6}
    assert json.loads(tool.attributes["gen_ai.tool.call.arguments"]) == wanted
    (cedar, _) = json.loads(tool.attributes["gen_ai.tool.call.result"])
    assert cedar == {"name": "Cedar", "floor": 2, "seats": 8}

    for call in (first, last):
        assert call.attributes["gen_ai.operation.name"] == "chat"
        assert call.attributes["gen_ai.provider.name"] == "openai"
        assert call.attributes["gen_ai.request.model"] == "gpt-6-luna"
        assert call.attributes["gen_ai.response.model"] == "gpt-6-luna"
        assert call.attributes["gen_ai.usage.input_tokens"] > 0
        assert call.attributes["gen_ai.usage.output_tokens"] > 0
        offered = json.loads(call.attributes["gen_ai.tool.definitions"])
        assert [each["name"] for each in offered] == ["find_rooms", "describe_room"]
    system, asked = said(first, "input")
    assert system["role"] == "system"
    assert asked["parts"] == [{"type": "text", "content": question}]
    (chosen,) = said(first, "output")[0]["parts"]
    assert (chosen["type"], chosen["name"], chosen["arguments"]) == (
        "tool_call",
        "find_rooms",
        wanted,
    )
    assert chosen["id"] == tool.attributes["gen_ai.tool.call.id"]
    (told,) = said(last, "input")[-1]["parts"]
    assert (told["type"], told["id"]) == ("tool_call_response", chosen["id"])
    assert said(last, "output")[0]["parts"] == [{"type": "text", "content": turn["answer"]}]

    assert {span.parent_id for span in (first, tool, last)} == {agent.span_id}
    assert {span.status for span in (agent, first, tool, last)} == {"ok"}


def test_the_turns_of_a_person_are_one_conversation(site: Site) -> None:
    one = site.ask("Which room is free on Tuesday for 6 people?")
    # The day is only known from the turn before.
    two = site.ask("And for 15?", one["conversation_id"])
    assert two["answer"] == "Elm on floor 3 is free; it has 20 seats."
    assert two["conversation_id"] == one["conversation_id"]
    assert two["trace_id"] != one["trace_id"]
    spans = site.trace(one["trace_id"], 4) + site.trace(two["trace_id"], 4)
    assert {span.attributes["gen_ai.conversation.id"] for span in spans} == {one["conversation_id"]}
    # Somebody else's words do not get into it, and nobody makes up its name.
    other = site.ask("And for 15?", "mine")
    assert other["answer"] == "For which day, and for how many people?"
    assert other["conversation_id"] not in ("mine", one["conversation_id"])


def test_a_tool_that_fails_is_told_to_the_model_and_stands_in_the_trace(site: Site) -> None:
    turn = site.ask("What is in the Walnut room?")
    assert turn["answer"] == "There is no room called Walnut."
    agent, tool, *_ = site.trace(turn["trace_id"], 4)
    assert (agent.status, tool.status) == ("ok", "error")
    assert tool.message == "There is no room called Walnut."


@pytest.mark.parametrize(
    ("content", "type", "status"),
    [
        (b'{"message": "hi"}', "text/plain", 415),
        (b'{"message": "hi"', "application/json", 400),
        (b"null", "application/json", 400),
        (b'{"message": " "}', "application/json", 400),
        (b'{"message": ["hi"]}', "application/json", 400),
        (b'{"message": "%s"}' % (b"a" * 200_000), "application/json", 413),
    ],
    ids=["a-form", "no-json", "null", "empty", "a-list", "huge"],
)
def test_what_is_no_question_is_refused(site: Site, content: bytes, type: str, status: int) -> None:
    answer = httpx2.post(
        f"{site.chat}/api/chat", content=content, headers={"content-type": type}, timeout=30
    )
    assert answer.status_code == status
    assert answer.json()["error"].endswith(".")


def test_a_model_that_is_away_is_a_sentence_and_a_failed_trace(site: Site, nowhere: str) -> None:
    name = f"away-{uuid.uuid4().hex}"
    with Started(
        [node(), "server.js"],
        site.program,
        PORT="0",
        OPENAI_BASE_URL=f"{nowhere}/v1",
        OPENAI_API_KEY="none",
        OTEL_EXPORTER_OTLP_ENDPOINT=site.ratchet,
        OTEL_EXPORTER_OTLP_HEADERS=f"authorization=Bearer%20{site.ingest_key}",
        OTEL_SERVICE_NAME=name,
    ) as chat:
        url = chat.line.split()[-1]
        answer = httpx2.post(f"{url}/api/chat", json={"message": "Hello?"}, timeout=30)
        assert answer.status_code == 502
        assert answer.json() == {"error": "The agent could not answer. Try again."}
        # What was not sent yet is sent at the end.
        assert chat.end() == 0
    spans, _ = site.store.spans.live(name)
    (agent,) = [span for span in spans if span.parent_id is None]
    assert (agent.status, agent.message) == ("error", "Connection error.")


def test_the_agent_answers_while_ratchet_is_away(
    program: Path, simulator: str, nowhere: str
) -> None:
    chat = Started(
        [node(), "server.js"],
        program,
        PORT="0",
        OPENAI_BASE_URL=simulator,
        OPENAI_API_KEY="none",
        OTEL_EXPORTER_OTLP_ENDPOINT=nowhere,
    )
    try:
        url = chat.line.split()[-1]
        for _ in range(3):
            body = {"message": "Which room is free on Friday for 7 people?"}
            answer = httpx2.post(f"{url}/api/chat", json=body, timeout=30)
            assert answer.json()["answer"] == "Birch on floor 1 is free; it has 8 seats."
    finally:
        chat.process.kill()
        chat.process.wait()


def test_a_runner_runs_it_in_rollouts_and_its_spans_are_the_attempts(site: Site) -> None:
    task = {"question": "Which room is free on Tuesday for 6 people?"}
    rollout = Rollout(id="r1", queue="rooms", candidate_id="", task_id="t", input=task)
    site.store.rollouts.create([rollout], time.time())
    command = [sys.executable, "-m", "ratchet", "runner", "--server", site.ratchet]
    command += ["--queue", "rooms", "--max-idle", "2", "--json"]
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("RATCHET_", "OTEL_"))}
    done = interpreters.run(
        [*command, "--command", shlex.join([node(), str(site.program / "rollout.js")])],
        env={**environ, "RATCHET_KEY": site.runner_key},
    )
    assert done.returncode == 0, done.stderr
    found = site.store.rollouts.get(["r1"])["r1"]
    assert found.status == "succeeded", found.error
    assert found.output == {"answer": "Cedar on floor 2 is free; it has 8 seats."}
    # All of it is one tree; the model's calls are in it once, as the gateway saw them.
    spans = site.store.spans.of("r1")
    (root,) = [span for span in spans if span.parent_id is None]
    agent, tool, first, last = ordered([span for span in spans if span is not root])
    assert {span.trace_id for span in spans} == {root.trace_id}
    assert agent.parent_id == root.span_id
    assert {span.parent_id for span in (tool, first, last)} == {agent.span_id}
    costs = [span.attributes["ratchet.cost_usd"] for span in (first, last)]
    assert found.cost_usd == pytest.approx(sum(costs))
    assert found.cost_usd > 0


def shown(name: str) -> str:
    """A file that the handbook's page on JavaScript shows."""
    text = re.sub("(?m)^  ", "", HANDBOOK.read_text()) if name == "conversations.js" else ""
    found = re.search(rf"```js\n(// {name}\n.*?)```", text or HANDBOOK.read_text(), re.DOTALL)
    assert found is not None, name
    return found[1]


def test_what_the_handbook_shows_works(site: Site, simulator: str) -> None:
    folder = site.program / "handbook"
    folder.mkdir()
    tracing = "\n".join(
        ('import { conversations } from "./conversations.js";', shown("tracing.js"))
    )
    assert "spanProcessors: [" in tracing
    tracing = tracing.replace("spanProcessors: [", "spanProcessors: [conversations, ")
    tell = shown("feedback.js").replace("https://ratchet.example", site.ratchet)
    files = {
        "tracing.js": tracing,
        "conversations.js": shown("conversations.js"),
        "agent.js": shown("agent.js"),
        "feedback.js": tell.replace("rk_…", site.feedback_key),
        "told.js": 'import { tell } from "./feedback.js";\n'
        "console.log(await tell(JSON.parse(process.argv[2])));\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    with Started(
        [node(), "agent.js"],
        folder,
        OPENAI_BASE_URL=simulator,
        OPENAI_API_KEY="none",
        OTEL_SERVICE_NAME="handbook",
        OTEL_EXPORTER_OTLP_ENDPOINT=site.ratchet,
        OTEL_EXPORTER_OTLP_HEADERS=f"authorization=Bearer%20{site.ingest_key}",
    ) as agent:
        answer = json.loads(agent.line)
        assert agent.process.wait(60) == 0
    assert answer["text"] == "Cedar on floor 2 is free; it has 8 seats."
    spans = site.trace(answer["traceId"], 4)
    assert spans[0].attributes["gen_ai.agent.name"] == "rooms"
    assert {span.attributes["gen_ai.conversation.id"] for span in spans} == {"conversation-1"}
    statement = {"id": uuid.uuid4().hex, "kind": "thumbs", "value": 0}
    statement["conversation_id"] = "conversation-1"
    with Started([node(), "told.js", json.dumps(statement)], folder) as told:
        assert told.line == "true\n"
        assert told.process.wait(60) == 0
    (found,) = site.feedback("conversation-1")
    assert found.id == statement["id"]


@pytest.mark.long
def test_the_example_is_improved_as_it_is_by_one_command(tmp_path: Path) -> None:
    """Its tracing, its tools and its loop stay; what is shipped is a patch of agent.js."""
    source = Path(__file__).parents[2] / "examples" / "node_agent"
    packages = installed(source)
    upstream = simulated_model()
    folder = tmp_path / "node_agent"
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("node_modules"))
    (folder / "node_modules").symlink_to(packages / "node_modules")
    (folder / "ratchet.toml").write_text(
        '[agent]\ncommand = "node rollout.js"\n\n'
        '[[evaluators]]\nuse = "contains"\nignore_case = false\n\n'
        f'[upstreams.simulated]\ndialect = "openai"\nbase_url = "{upstream.url}"\n\n'
        '[improve]\nalgorithm = "few_shot"\n[improve.budget]\nrollouts = 40\n\n'
        "[prove]\nrepetitions = 1\n"
    )
    rooms = ("Alder", "Birch", "Cedar", "Elm", "Fir")
    tasks = [
        {"id": f"t{n}", "input": {"question": f"Room {n}: {room}"}, "expected": room.upper()}
        for n, room in enumerate(rooms * 30)
    ]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    committed(folder)
    try:
        done = interpreters.run(
            [sys.executable, "-m", "ratchet", "improve", "--json"],
            cwd=folder,
            env=os.environ,
            timeout=900,
        )
    finally:
        upstream.close()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["verdict"] == "promote"
    patched = subprocess.run(
        ["git", "diff", "--stat", "HEAD", found["branch"]],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "agent.js" in patched
    assert "1 file changed" in patched
