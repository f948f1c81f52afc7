"""Services that Ratchet starts itself: Node and Python programs, however they behave.

The gateway is a server that remembers what was asked of it; the programs, their ports and their
ends are real.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.free_ports import free_port
from tests.node_packages import node
from tests.run.executing import use
from tests.server.gateway.upstreams import StubUpstream
from tests.waiting import alive

from ratchet.run import served_process
from ratchet.run.denials import kept_of
from ratchet.run.handover import Handover
from ratchet.run.served import ServedExecutor
from ratchet.sandbox.containment import (
    AgentContainment,
    Allowance,
    why_no_mounts,
    why_no_supervision,
)
from ratchet.types import AgentError, Claim, Outcome

Claims = Callable[..., list[Claim]]

NODE = """
import http from "node:http";
let served = 0;
const base = process.env.OPENAI_BASE_URL; // read once, as a client does
http.createServer(async (request, response) => {
  let text = "";
  for await (const part of request) text += part;
  const body = JSON.parse(text);
  const said = await fetch(base + "/chat/completions", {
    method: "POST",
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content: body.question }] }),
  });
  served += 1;
  response.end(JSON.stringify({ answer: { text: (await said.json()).said }, served, body }));
}).listen(process.env.PORT);
"""

PYTHON = """
import http.server, json, os, subprocess, sys, time, urllib.request

TYPE = "application/json"

class Service(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        task = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = ANSWER(task["input"])
        answer = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", TYPE)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass

def serve(port):
    http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Service).serve_forever()
"""


@pytest.fixture
def gateway() -> Iterator[StubUpstream]:
    """A gateway whose every answer names the path of its request."""
    stub = StubUpstream()

    def script(seen: Any, wire: Any) -> None:
        body = json.dumps({"said": seen.target}).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        wire.send(f"{head}\r\n\r\n".encode() + body)

    stub.script = script
    yield stub
    stub.close()


MakeService = Callable[..., ServedExecutor]


@pytest.fixture
def service(tmp_path: Path, gateway: StubUpstream) -> MakeService:
    """An executor for a service in Python of that source, or for another command."""

    def make(source: str, *command: str, **settings: Any) -> ServedExecutor:
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        (folder / "service.py").write_text(PYTHON + textwrap.dedent(source))
        options: dict[str, Any] = {
            "url": f"http://127.0.0.1:{free_port()}/chat",
            "handover": Handover(),
            "slots": 2,
            "timeout_s": 20.0,
            **settings,
        }
        return ServedExecutor(
            command or (sys.executable, "service.py"),
            options.pop("url"),
            folder=folder,
            state=tmp_path / "state",
            server=f"http://127.0.0.1:{gateway.port}",
            **options,
        )

    return make


def run(executor: ServedExecutor, claims: list[Claim], *, at_once: bool = True) -> list[Outcome]:
    """How attempts end, at once or one after another."""

    async def work() -> list[Outcome]:
        if at_once:
            return await asyncio.gather(*(executor.execute(claim, {}) for claim in claims))
        return [await executor.execute(claim, {}) for claim in claims]

    outcomes: list[Outcome] = use(executor, work)
    return outcomes


async def ended(*pids: int) -> None:
    """Wait until processes that were killed are gone."""
    async with asyncio.timeout(20):
        while any(alive(pid) for pid in pids):
            await asyncio.sleep(0.02)


def test_a_service_in_node_gets_the_input_in_its_body_and_its_calls_are_the_attempts(
    service: MakeService, claims: Claims, tmp_path: Path
) -> None:
    executor = service(
        "",
        node(),
        "service.mjs",
        handover=Handover(
            body={"question": "{input.text}", "all": "{input}", "session": "s {{1}}", "n": 3},
            output="answer",
        ),
    )
    (tmp_path / "project" / "service.mjs").write_text(NODE)
    asked = claims(*({"text": f'"{n}"\n', "list": [n]} for n in range(6)))
    outcomes = run(executor, asked)
    assert executor.slots == 2
    for claim, outcome in zip(asked, outcomes, strict=True):
        assert outcome.status == "succeeded", outcome.error
        attempt = f"{claim.rollout.id}@{claim.fence}"
        assert outcome.output == {"text": f"/gateway/{attempt}/openai/v1/chat/completions"}
        assert outcome.spans[0].attributes["ratchet.url"].endswith("/chat")


def test_the_events_of_a_stream_are_one_answer(service: MakeService, claims: Claims) -> None:
    events = (
        b'data: {"type": "start"}\n\n'
        b'event: delta\r\ndata: {"delta": {"text": "On its"}}\r\n\r\n'
        b': still here\n\ndata: {"delta": {"text": " way."}}\n\ndata: [DONE]\n\n'
    )
    source = f"""
        TYPE = "text/event-stream"
        ANSWER = lambda given: {events!r}
        serve(os.environ["PORT"])
    """
    (text,) = run(service(source, handover=Handover(output="delta.text")), claims("q"))
    assert text.output == "On its way."
    (missing,) = run(service(source, handover=Handover(output="answer")), claims("q"))
    assert missing.error.startswith(
        "The service answered, but none of its events has 'answer', which output names."
    )
    (whole,) = run(service(source), claims("q"))
    assert whole.output[0] == {"type": "start"}


@pytest.mark.parametrize(
    "end",
    [
        b"event: error\ndata: the model is overloaded\n\n",
        b'data: {"type": "error", "message": "the model is overloaded"}\n\ndata: [DONE]\n\n',
        b'data: {"error": {"message": "the model is overloaded"}}\n\n',
    ],
)
@pytest.mark.parametrize("output", ["delta", ""])
def test_a_stream_that_ends_with_an_error_has_failed(
    service: MakeService, claims: Claims, end: bytes, output: str
) -> None:
    events = b'data: {"delta": "On its"}\n\n' + end
    source = f"""
        TYPE = "text/event-stream"
        ANSWER = lambda given: {events!r}
        serve(os.environ["PORT"])
    """
    (outcome,) = run(service(source, handover=Handover(output=output)), claims("q"))
    assert outcome.status == "failed"
    assert "its stream ended with an error" in outcome.error
    assert "the model is overloaded" in outcome.error


def test_lines_of_json_are_events_where_output_names_a_path(
    service: MakeService, claims: Claims
) -> None:
    lines = b'{"name": "start"}\n{"delta": "On its"}\n{"delta": " way."}\n{"name": "end"}\n'
    source = f"""
        TYPE = "application/x-ndjson"
        ANSWER = lambda given: {lines!r}
        serve(os.environ["PORT"])
    """
    (text,) = run(service(source, handover=Handover(output="delta")), claims("q"))
    assert text.output == "On its way."
    (last,) = run(service(source), claims("q"))
    assert last.output == {"name": "end"}


def test_the_input_can_stand_in_the_query(service: MakeService, claims: Claims) -> None:
    executor = service(
        """
        def do_GET(self):
            answer = json.dumps([self.command, self.path]).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)
        Service.do_GET = do_GET
        serve(os.environ["PORT"])
        """,
        handover=Handover(method="GET", query={"q": "{input}", "top": "3"}, output="1"),
    )
    (outcome,) = run(executor, claims("a&b=c d/é\n"))
    assert outcome.output == "/chat?q=a%26b%3Dc+d/%C3%A9%0A&top=3"


def test_instances_are_reused_and_restarted_after_a_crash_with_their_last_output(
    service: MakeService, claims: Claims
) -> None:
    executor = service("""
        def ANSWER(given):
            if given == "crash":
                print("the disk of", given, flush=True)
                os._exit(3)
            return [given, os.getpid()]
        serve(os.environ["PORT"])
    """)
    first, second, crashed, after = run(executor, claims("a", "b", "crash", "c"), at_once=False)
    assert first.output[1] == second.output[1] != after.output[1]
    assert crashed.status == "crashed"
    assert crashed.error == (
        "The service ended with exit code 3. Its last output:\nthe disk of crash"
    )


def test_a_hang_is_timed_out_and_the_next_attempt_has_another_process(
    service: MakeService, claims: Claims
) -> None:
    executor = service(
        """
        def ANSWER(given):
            if given == "hang":
                print("waiting for the database", flush=True)
                time.sleep(600)
            return os.getpid()
        serve(os.environ["PORT"])
        """,
        timeout_s=1.0,
    )
    before, hung, after = run(executor, claims("a", "hang", "b"), at_once=False)
    assert hung.status == "timed_out"
    assert hung.error == "No answer within 1 s. Its last output:\nwaiting for the database"
    assert before.output != after.output
    assert not alive(before.output)


def test_a_service_on_a_fixed_port_runs_one_attempt_at_a_time_and_says_so(
    service: MakeService, claims: Claims
) -> None:
    port = free_port()
    said: list[str] = []
    executor = service(
        f"""
        running = []
        def ANSWER(given):
            if given == "crash":
                os._exit(1)
            running.append(given)
            time.sleep(0.05)
            alone = running == [given]
            running.remove(given)
            return alone
        serve({port})
        """,
        url=f"http://127.0.0.1:{port}/",
        say=said.append,
        slots=4,
    )
    outcomes = run(executor, claims(*range(4), "crash", 5))
    assert [outcome.output for outcome in outcomes if outcome.status == "succeeded"] == [True] * 5
    assert executor.slots == 1
    assert said == [
        f"Rollouts run one at a time: the service always listens on port {port}, not on the"
        " port in its variable PORT."
    ]


def test_the_port_can_stand_in_the_command_and_a_late_service_is_waited_for(
    service: MakeService, claims: Claims
) -> None:
    executor = service(
        """
        ANSWER = lambda given: sys.argv[1:]
        time.sleep(0.5)
        serve(sys.argv[1].removeprefix("--port="))
        """,
        sys.executable,
        "service.py",
        "--port={port}",
    )
    (outcome,) = run(executor, claims("a"))
    assert outcome.status == "succeeded", outcome.error
    assert outcome.output[0].startswith("--port=")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("sys.exit('No DATABASE_URL.')", "exit code 1 before it listened. Its last output:\nNo DA"),
        ("print('up', flush=True)\ntime.sleep(600)", "did not listen on port"),
        ("os.kill(os.getpid(), 9)", "killed by SIGKILL before it listened"),
    ],
)
def test_a_service_that_does_not_start_is_an_error_with_its_last_output(
    service: MakeService,
    claims: Claims,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    said: str,
) -> None:
    monkeypatch.setattr(served_process, "START_TIMEOUT_S", 1.0)
    with pytest.raises(AgentError) as failed:
        run(service(source, timeout_s=1.0), claims("a"))
    assert said in failed.value.message


def test_a_service_may_take_as_long_to_start_as_an_attempt(
    service: MakeService, claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_process, "START_TIMEOUT_S", 0.01)
    (outcome,) = run(
        service("ANSWER = str\ntime.sleep(0.5)\nserve(os.environ['PORT'])"), claims("a")
    )
    assert outcome.status == "succeeded"


def test_a_port_that_another_program_has_is_named(service: MakeService, claims: Claims) -> None:
    port = free_port()
    other = subprocess.Popen(
        [sys.executable, "-m", "http.server", "-b", "127.0.0.1", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        executor = service(f"serve({port})", url=f"http://127.0.0.1:{port}/")

        async def until_taken() -> None:
            while not await served_process.listens("127.0.0.1", port):
                await asyncio.sleep(0.02)

        asyncio.run(until_taken())
        with pytest.raises(
            AgentError, match=f"Another program is already listening on port {port}"
        ):
            run(executor, claims("a"))
    finally:
        other.kill()
        other.wait()


def test_a_second_instance_that_does_not_start_leaves_one_at_a_time(
    service: MakeService, claims: Claims
) -> None:
    said: list[str] = []
    executor = service(
        """
        ANSWER = lambda given: given
        os.close(os.open("lock", os.O_CREAT | os.O_EXCL))  # only one may run
        serve(os.environ["PORT"])
        """,
        say=said.append,
        slots=3,
    )
    outcomes = run(executor, claims(*range(5)))
    assert [outcome.output for outcome in outcomes] == list(range(5))
    assert executor.slots == 1
    assert "another instance of the service does not start while these run" in said[0]


def test_what_a_service_started_ends_with_it(
    service: MakeService, claims: Claims, tmp_path: Path
) -> None:
    executor = service(
        """
        grandchildren = [
            subprocess.Popen(["sh", "-c", "sleep 600; :"], start_new_session=own)
            for own in (False, True)
        ]
        ANSWER = lambda given: [each.pid for each in grandchildren]
        serve(os.environ["PORT"])
        """,
        "sh",
        "-c",
        f"{sys.executable} service.py; :",
    )
    (outcome,) = run(executor, claims("a"))
    asyncio.run(ended(*outcome.output))


def test_what_a_killed_ratchet_had_started_ends_too(tmp_path: Path) -> None:
    script = """
import asyncio, sys, os
from pathlib import Path
from ratchet.run.served_process import ServedProcess
process = ServedProcess(
    ["sh", "-c", "sleep 600 & echo $!; wait"], folder=Path("."), environ=os.environ, log=Path("log")
)
process.start()
while not Path("log").read_text().strip():
    pass
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, timeout=60)
    assert done.returncode == -signal.SIGKILL
    asyncio.run(ended(int((tmp_path / "log").read_text())))


def test_a_cancelled_attempts_process_does_not_serve_the_next_one(
    service: MakeService, claims: Claims
) -> None:
    executor = service(
        """
        def ANSWER(given):
            if given == "slow":
                open("begun", "w").close()
                time.sleep(600)
            return os.getpid()
        serve(os.environ["PORT"])
        """,
        slots=1,
    )
    begun = Path(executor._folder) / "begun"
    first, slow, after = claims("a", "slow", "b")

    async def work() -> list[Any]:
        before = await executor.execute(first, {})
        task = asyncio.create_task(executor.execute(slow, {}))
        while not begun.exists():
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task})
        return [before.output, task.cancelled(), (await executor.execute(after, {})).output]

    before, cancelled, then = use(executor, work)
    assert cancelled
    assert before != then


@pytest.mark.parametrize("port_is", ["fixed", "given"])
@pytest.mark.parametrize(
    ("level", "missing"), [("bubblewrap", why_no_mounts()), ("landlock", why_no_supervision())]
)
def test_a_contained_service_answers_reaches_its_model_alone_and_what_it_tries_is_named(
    service: MakeService, claims: Claims, tmp_path: Path, level: str, missing: str, port_is: str
) -> None:
    if missing:
        pytest.skip(missing)
    port, outside = free_port(), tmp_path / "outside"
    executor = service(
        f"""
        def ANSWER(given):
            try:
                open({str(outside)!r}, "w").write("reached")
            except OSError:
                pass
            try:
                urllib.request.urlopen("http://api.tavily.com/", timeout=5)
            except OSError as error:
                why = str(error.reason)
            url = os.environ["OPENAI_BASE_URL"] + "/models"
            return [given, why, json.load(urllib.request.urlopen(url))["said"]]
        serve({port} if {port_is == "fixed"} else os.environ["PORT"])
        """,
        url=f"http://127.0.0.1:{port}/",
    )
    folder = executor._folder
    executor._containment = AgentContainment(Allowance(), root=folder, level=level)
    asked = claims(*range(4))
    outcomes = run(executor, asked)
    refused = "[Errno 111] Connection refused"
    assert [outcome.output for outcome in outcomes] == [
        [n, refused, f"/gateway/{claim.rollout.id}@1/openai/v1/models"]
        for n, claim in enumerate(asked)
    ]
    # Each has a network of its own only where there are mounts.
    assert executor.slots == (1 if (level, port_is) == ("landlock", "fixed") else 2)
    assert not outside.exists()
    for outcome in outcomes:
        named = [act for act in kept_of(outcome.spans) if act.kind != "write"]
        assert [(act.subject, act.port) for act in named] == [("api.tavily.com", 80)]


def test_keys_of_providers_and_of_the_store_do_not_reach_a_service(
    service: MakeService, claims: Claims, gateway: StubUpstream
) -> None:
    executor = service(
        "ANSWER = lambda given: dict(os.environ)\nserve(os.environ['PORT'])",
        environ={**os.environ, "OPENAI_API_KEY": "sk-own", "RATCHET_KEY": "rk", "MINE": "kept"},
        base_urls=["CLAUDE_URL"],
        keys=["MY_KEY"],
    )
    (outcome,) = run(executor, claims("a"))
    seen = outcome.output
    assert (seen["OPENAI_API_KEY"], seen["MY_KEY"], seen["MINE"]) == ("ratchet", "ratchet", "kept")
    assert "RATCHET_KEY" not in seen
    assert "/anthropic" in seen["CLAUDE_URL"]


def test_calls_at_the_start_count_for_the_first_attempt_and_calls_to_elsewhere_are_refused(
    service: MakeService, claims: Claims, gateway: StubUpstream
) -> None:
    executor = service(
        f"""
        import urllib.error
        base = os.environ["OPENAI_BASE_URL"]
        def asked(url):
            try:
                return json.load(urllib.request.urlopen(url))["said"]
            except urllib.error.HTTPError as error:
                return error.code
        early = asked(base + "/models")
        root = base.partition("/openai")[0]
        ANSWER = lambda given: [early, asked(root + "/to/http/127.0.0.1:{gateway.port}/x")]
        serve(os.environ["PORT"])
        """
    )
    (claim,) = claims("a")
    (outcome,) = run(executor, [claim])
    early, elsewhere = outcome.output
    assert early == f"/gateway/{claim.rollout.id}@1/openai/v1/models"
    assert elsewhere == 409
