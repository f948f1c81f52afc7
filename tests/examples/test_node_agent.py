"""The example in Node: traced with OpenTelemetry's packages, with feedback from its page.

The model is the example's simulator; `ratchet serve`, Node, npm's packages and Chromium are real.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ratchet.store import Store
from ratchet.types import Feedback, Rollout, Span
from tests.node_packages import installed, node

EXAMPLE = Path(__file__).parents[2] / "examples" / "node_agent"
PROVIDER_KEY = f"sk-{secrets.token_hex(20)}"

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass
class Site:
    """The example and its Ratchet, which asks everybody for a key."""

    chat: str
    ratchet: str
    store: Store
    program: Path
    feedback_key: str
    ingest_key: str
    run_key: str

    def ask(self, message: str, conversation: str = "") -> dict[str, str]:
        """One turn, as the page has it."""
        body = {"message": message, "conversation_id": conversation}
        answer = httpx2.post(f"{self.chat}/api/chat", json=body, timeout=30)
        assert answer.status_code == 200, answer.text
        found: dict[str, str] = answer.json()
        return found

    def trace(self, trace_id: str, count: int) -> list[Span]:
        """The spans of a trace, once there are so many: the agent's, its tool's, its model's."""
        deadline = time.monotonic() + 20
        while len(found := self.store.spans.of_trace(trace_id)) < count:
            assert time.monotonic() < deadline, found
            time.sleep(0.01)
        assert len(found) == count
        return ordered(found)

    def feedback(self, conversation: str) -> list[Feedback]:
        """What was said of a conversation, the oldest first."""
        found, _ = self.store.feedback.list(conversation_id=conversation)
        return found[::-1]


class Started:
    """A program that says where it is in its first line."""

    def __init__(self, command: list[str], folder: Path, **changes: str) -> None:
        # Nothing of this machine decides where it sends or with which key.
        ours = ("RATCHET_", "OPENAI_", "OTEL_")
        environ = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        self.process = subprocess.Popen(
            command, cwd=folder, env=environ | changes, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        assert self.line, f"{command} ended with {self.process.wait()}"

    def end(self) -> int:
        """End it as a service manager does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def kept_port() -> socket.socket:
    """A port that nobody answers at: nobody gets it by chance, and whoever names it may have it."""
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    return kept


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address where nobody is."""
    with kept_port() as kept:
        yield f"http://127.0.0.1:{kept.getsockname()[1]}"


@pytest.fixture(scope="module")
def program() -> Iterator[Path]:
    """A copy of the example, where it finds its packages."""
    folder = installed(EXAMPLE) / f"copy.{os.getpid()}"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules", ".ratchet"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def simulator(program: Path) -> Iterator[str]:
    """Base URL of the simulated model."""
    with Started([node(), "simulator.js"], program, PORT="0") as started:
        yield started.line.split()[-1]


@pytest.fixture(scope="module")
def site(program: Path, simulator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """`ratchet serve` and the chat server, both on free ports."""
    folder = tmp_path_factory.mktemp("project")
    # Ratchet has to know the page's origin before the chat server can know Ratchet's address.
    kept = kept_port()
    port = str(kept.getsockname()[1])
    config = (EXAMPLE / "ratchet.toml").read_text()
    assert "http://127.0.0.1:3000" in config
    config = config.replace(":3000", f":{port}")
    config += f'[upstreams.simulator]\ndialect = "openai"\nbase_url = "{simulator}"\n'
    (folder / "ratchet.toml").write_text(config)

    url = f"sqlite:///{folder}/ratchet.db"
    serve = [sys.executable, "-m", "ratchet", "serve", "--json", "--store", url]
    with Store.open(url) as store:
        feedback, ingest, run = (
            store.keys.create(scope, [scope], time.time(), None)[1]
            for scope in ("feedback", "ingest", "run")
        )
        with Started([*serve, "--host", "0.0.0.0", "--port", "0"], folder) as served:
            ratchet = json.loads(served.line)["url"].replace("0.0.0.0", "127.0.0.1")
            with Started(
                [node(), "server.js"],
                program,
                PORT=port,
                OPENAI_BASE_URL=simulator,
                OPENAI_API_KEY=PROVIDER_KEY,
                OTEL_EXPORTER_OTLP_ENDPOINT=ratchet,
                OTEL_EXPORTER_OTLP_HEADERS=f"authorization=Bearer%20{ingest}",
                OTEL_BSP_SCHEDULE_DELAY="50",
                RATCHET_FEEDBACK_KEY=feedback,
            ) as chat:
                address = chat.line.split()[-1]
                assert address == f"http://127.0.0.1:{port}"
                yield Site(address, ratchet, store, program, feedback, ingest, run)
                assert chat.end() == 0
    kept.close()


def ordered(spans: list[Span]) -> list[Span]:
    """Spans by what they are, and those of the model by what it knew: clocks have ties."""
    operations = ("invoke_agent", "execute_tool", "chat")

    def place(span: Span) -> tuple[int, int]:
        known = span.attributes.get("gen_ai.input.messages", "")
        return operations.index(span.attributes["gen_ai.operation.name"]), len(known)

    return sorted(spans, key=place)


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
        assert call.attributes["gen_ai.request.model"] == "gpt-4o-mini"
        assert call.attributes["gen_ai.response.model"] == "gpt-4o-mini"
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


def test_the_pages_key_gives_feedback_and_nothing_else(site: Site) -> None:
    turn = site.ask("Which room is free on Friday for 7 people?")
    settings = httpx2.get(f"{site.chat}/settings.json").json()
    assert settings == {"ratchet": site.ratchet, "feedbackKey": site.feedback_key}
    with_key = {"authorization": f"Bearer {settings['feedbackKey']}", "origin": site.chat}
    ours = f"{site.ratchet}/v1/feedback"

    # A browser asks first whether this page may.
    asks = {
        "origin": site.chat,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    granted = httpx2.options(ours, headers=asks)
    assert granted.is_success
    assert granted.headers["access-control-allow-origin"] == site.chat
    assert "POST" in granted.headers["access-control-allow-methods"]
    allowed = granted.headers["access-control-allow-headers"].lower()
    assert "authorization" in allowed
    assert "content-type" in allowed
    refused = httpx2.options(ours, headers={**asks, "origin": "https://elsewhere.example"})
    assert "access-control-allow-origin" not in refused.headers

    statement = {
        "id": uuid.uuid4().hex,
        "kind": "thumbs",
        "value": 0,
        **{name: turn[name] for name in ("trace_id", "span_id", "conversation_id")},
    }
    for stored in (1, 0):  # the second time it is known
        given = httpx2.post(ours, headers=with_key, json={"feedback": [statement]})
        assert given.json() == {"stored": stored}
        assert given.headers["access-control-allow-origin"] == site.chat
    (found,) = site.feedback(turn["conversation_id"])
    assert (found.kind, found.value) == ("thumbs", 0)
    assert (found.trace_id, found.span_id) == (turn["trace_id"], turn["span_id"])

    assert httpx2.post(ours, json={"feedback": [statement]}).status_code == 401
    for path in ("feedback", "spans?agent=room-agent", "rollouts", "keys"):
        read = httpx2.get(f"{site.ratchet}/v1/{path}", headers=with_key)
        assert read.status_code == 403, path
    for path in ("spans", "traces", "scores"):
        sent = httpx2.post(f"{site.ratchet}/v1/{path}", headers=with_key, json={})
        assert sent.status_code == 403, path


def test_the_page_learns_no_other_secret(site: Site) -> None:
    for path in ("/", "/chat.js", "/style.css", "/settings.json", "/server.js", "/../server.js"):
        answer = httpx2.get(f"{site.chat}{path}")
        assert answer.status_code == (404 if "server" in path else 200)
        assert PROVIDER_KEY not in answer.text
        assert site.ingest_key not in answer.text
        policy = answer.headers["content-security-policy"]
        assert policy.endswith(f"connect-src 'self' {site.ratchet}")


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
    command += ["--queue", "rooms", "--max-idle", "0.1", "--json"]
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("RATCHET_", "OTEL_"))}
    done = subprocess.run(
        [*command, "--command", shlex.join([node(), str(site.program / "rollout.js")])],
        env={**environ, "RATCHET_KEY": site.run_key},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
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


def chromium() -> str:
    """A browser of this machine; the test is skipped where there is none."""
    for name in BROWSERS:
        if found := shutil.which(name):
            return found
    pytest.skip("Chromium is not installed")


def test_a_person_chats_in_a_browser_and_gives_feedback(site: Site) -> None:
    path = chromium()
    sync_api = pytest.importorskip("playwright.sync_api")
    complaints: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        page = browser.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(site.chat)
        log = page.get_by_role("log", name="Conversation")
        turns: list[dict[str, str]] = []

        def ask(question: str) -> Any:
            page.get_by_label("Your question").fill(question)
            with page.expect_response(f"{site.chat}/api/chat") as caught:
                page.keyboard.press("Enter")
            turns.append(caught.value.json())
            log.get_by_text(turns[-1]["answer"]).wait_for()
            return log.get_by_role("listitem").last

        answer = ask("Which room is free on Tuesday for 6 people?")
        answer.get_by_role("button", name="Helpful", exact=True).click()
        answer.get_by_text("Thank you.").wait_for()
        pressed = page.get_by_role("button", pressed=True)
        assert pressed.all_inner_texts() == ["👍 Helpful"]

        # The rest without a mouse.
        answer = ask("And for 15?")
        answer.get_by_role("button", name="Not helpful").press("Enter")
        answer.get_by_text("Thank you.").wait_for()
        answer.get_by_text("Correct it").press("Enter")
        field = answer.get_by_label("What it should have said")
        field.fill("Elm, but its stage is being repaired.")
        with page.expect_response(f"{site.ratchet}/v1/feedback"):
            answer.get_by_role("button", name="Send correction").press("Space")
        field.wait_for(state="hidden")
        browser.close()
    assert complaints == []

    one, two = turns
    assert one["conversation_id"] == two["conversation_id"]
    given = site.feedback(one["conversation_id"])
    assert [(each.kind, each.value, each.trace_id, each.span_id) for each in given] == [
        ("thumbs", 1, one["trace_id"], one["span_id"]),
        ("thumbs", 0, two["trace_id"], two["span_id"]),
        ("correction", None, two["trace_id"], two["span_id"]),
    ]
    assert given[-1].content == "Elm, but its stage is being repaired."
    spans = site.trace(one["trace_id"], 4) + site.trace(two["trace_id"], 4)
    assert {span.attributes["gen_ai.conversation.id"] for span in spans} == {one["conversation_id"]}
