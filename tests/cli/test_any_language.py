"""Agents in any language: a command or a service is improved as it is, by one command.

The model is a simulator; Node, the shell, the servers and the git repositories are real.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ratchet._http import httpx2
from ratchet.server.gateway.upstream import Upstream
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from tests.cli.conftest import Project
from tests.cli.simulated_model import instructions_in, simulated_model
from tests.free_ports import free_port
from tests.node_packages import node
from tests.server.gateway.upstreams import StubUpstream
from tests.serving import RunningServer

AGENTS = Path(__file__).parents[1] / "agents" / "any_language"
PRODUCTS = ("apple", "pear", "plum", "fig", "kiwi", "lime", "date", "grape", "mango", "melon")

CONFIG = """
[agent]
{agent}

[[evaluators]]
use = "exact_match"

[upstreams.simulated]
dialect = "{dialect}"
base_url = "{upstream}"

[improve]
algorithm = "few_shot"
options = {{ sets = 1, val_batch_size = 4 }}  # each rollout starts a program

[improve.budget]
rollouts = 32

[prove]
repetitions = 1

[server]
port = {port}

[run]
timeout_s = 30
attempts = 1
{run}
"""

NO_GUARDRAILS = "".join(
    f'\n[[guardrails]]\nmetric = "{metric}"\noff = true\n'
    for metric in ("errors", "latency", "cost")
)


@pytest.fixture
def upstream() -> Iterator[StubUpstream]:
    """The simulated model."""
    model = simulated_model()
    yield model
    model.close()


MakeAgent = Callable[..., Project]


@pytest.fixture
def make_agent(tmp_path: Path, upstream: StubUpstream) -> MakeAgent:
    """Builds a project whose agent is no Python function."""

    def make(
        agent: str,
        *files: Path,
        dialect: str = "openai",
        port: int = 0,
        tasks: int = 30,
        run: str = "",
        name: str = "shop",
    ) -> Project:
        root = tmp_path / name
        root.mkdir()
        for file in files:
            shutil.copy(file, root)
        project = Project(root)
        config = CONFIG.format(
            agent=agent, dialect=dialect, upstream=upstream.url, port=port, run=run
        )
        project.write("ratchet.toml", config + NO_GUARDRAILS)
        project.write(".gitignore", ".env\n")
        lines = [
            json.dumps(
                {
                    "id": f"t{number}",
                    "input": f"question {number}: {product}",
                    "expected": product.upper(),
                }
            )
            for number, product in enumerate(PRODUCTS * (tasks // len(PRODUCTS) + 1))
        ]
        project.write("tasks.jsonl", "\n".join(lines[:tasks]) + "\n")
        project.git("init", "-q", "-b", "main")
        project.commit("agent")
        return project

    return make


@pytest.mark.long
def test_an_agent_in_node_is_improved_by_one_command(
    make_agent: MakeAgent, upstream: StubUpstream
) -> None:
    node()
    project = make_agent('command = "node agent.mjs"', AGENTS / "agent.mjs")
    found = project.json("improve")
    assert found["verdict"] == "promote"
    assert (found["baseline"], found["candidate"]) == (0.0, 1.0)
    branch = str(found["branch"])
    changed = project.git("diff", "--stat", f"main..{branch}")
    assert re.fullmatch(r" agent\.mjs \| +\d+ .*\n 1 file changed, .*\n", changed)
    patched = project.git("show", f"{branch}:agent.mjs")
    assert "You answer for the ${SHOP} shop.\n" in patched  # its expression is kept
    assert re.search(r"\nOutput: [A-Z]+`;\n", patched)
    # The patched agent sends what was proved, and its own value in the slot.
    project.git("switch", "-q", branch)
    upstream.seen.clear()
    environ = {
        **os.environ,
        "OPENAI_BASE_URL": upstream.url,
        "OPENAI_API_KEY": "-",
        "SHOP": "south",
    }
    done = subprocess.run(
        ["node", "agent.mjs"],
        cwd=project.root,
        env=environ,
        input=json.dumps({"input": "question 1: fig"}),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "FIG\n"
    assert instructions_in(upstream.seen[-1]).startswith("You answer for the south shop.\n")


PYTHON = f'command = "{shlex.quote(sys.executable)} agent.py"'

RESPONSES = """
import json, os, sys, urllib.request
task = json.load(sys.stdin)
words = ["You answer for the", "shop.", "Say unknown where you don't know."]
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/responses",
    json.dumps({"model": "m", "instructions": " ".join(words), "input": task["input"]}).encode(),
    {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
)
with urllib.request.urlopen(request) as response:
    print(json.load(response)["output"][0]["content"][0]["text"])
"""


def test_a_prompt_that_stands_nowhere_is_released_at_the_gateway_and_rolled_back(
    make_agent: MakeAgent, upstream: StubUpstream, tmp_path: Path
) -> None:
    project = make_agent(PYTHON + '\nname = "support"', name="gateway-only")
    project.write("agent.py", RESPONSES)
    project.commit()
    found = project.json("improve")
    assert (found["verdict"], found["active"], found["branch"]) == ("promote", "support", None)
    text = next((project.root / ".ratchet" / "releases").glob("*.md")).read_text()
    assert "Output: " in text  # what to paste
    assert (
        "You answer for the shop. Say unknown where you don't know." in text
    )  # and in whose place

    server = RunningServer(f"sqlite:///{project.root}/.ratchet/ratchet.db", settings_of(upstream))
    try:
        assert "Output: " in live_instructions(server, upstream)
        assert "Output: " not in live_instructions(server, upstream, agent="somebody-else")
        project.json("rollback")
        assert eventually(lambda: "Output: " not in live_instructions(server, upstream))
    finally:
        server.stop()
    listed: Any = project.json("releases")["releases"]
    assert [each["state"] for each in listed] == ["rolled_back"]
    again = project.ratchet("rollback")
    assert again.returncode != 0
    assert "has already ended" in again.stderr


TEMPLATE = """
import json, os, sys, urllib.request
task = json.load(sys.stdin)
content = "# Shop\\n" + f"Answer for the shop, in one word.\\nAsked: {task['input']}"
body = {"model": "m", "messages": [
    {"role": "system", "content": f"You help. Number {hash(task['input'])}."},
    {"role": "user", "content": content},
]}
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
    {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
)
with urllib.request.urlopen(request) as response:
    print(json.load(response)["choices"][0]["message"]["content"])
"""


def test_a_template_in_the_users_message_beside_a_system_prompt_is_improved_and_patched(
    tmp_path: Path, make_agent: MakeAgent, upstream: StubUpstream
) -> None:
    project = make_agent(PYTHON, name="template")
    project.write("agent.py", TEMPLATE)
    project.commit()
    ended = project.json("improve")
    assert ended["verdict"] == "promote"
    patched = project.git("show", f"{ended['branch']}:agent.py")
    assert "Output: " in patched
    assert "{task['input']}" in patched
    assert '"# Shop\\n" + ' in patched, "what stands around the prompt stays"


LOOP = """
import json, os, sys, urllib.request
import jinja2
TEMPLATE = '''Answer for the shop, in one word.
{% for fact in facts %}- {{ fact }}
{% endfor %}
Asked: {{ question }}'''
task = json.load(sys.stdin)
facts = ["open", "small"][: 1 + len(task["input"]) % 2]
content = jinja2.Template(TEMPLATE).render(facts=facts, question=task["input"])
body = {"model": "m", "messages": [{"role": "user", "content": content}]}
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
    {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
)
with urllib.request.urlopen(request) as response:
    print(json.load(response)["choices"][0]["message"]["content"])
"""


def test_a_template_with_a_loop_is_improved_and_keeps_the_loop(make_agent: MakeAgent) -> None:
    project = make_agent(PYTHON, name="loop")
    project.write("agent.py", LOOP)
    project.commit()
    ended = project.json("improve")
    assert ended["verdict"] == "promote"
    patched = project.git("show", f"{ended['branch']}:agent.py")
    assert "Output: " in patched
    assert "{% for fact in facts %}- {{ fact }}\n{% endfor %}" in patched
    assert "{{ question }}" in patched


def test_an_agent_in_a_folder_without_git_is_evaluated(make_agent: MakeAgent) -> None:
    project = make_agent(PYTHON, tasks=10, name="no-git")
    project.write("agent.py", TEMPLATE)
    shutil.rmtree(project.root / ".git")
    done = project.ratchet("eval", "--split", "all")
    assert done.returncode == 0, done.stderr
    assert "Its prompts: no-git.user (agent.py:" in " ".join(done.stdout.split())
    assert done.stdout.count("Rollouts are not contained") == 1


def test_calls_of_a_command_go_to_the_proxy_that_the_environment_names(
    make_agent: MakeAgent, upstream: StubUpstream
) -> None:
    project = make_agent(PYTHON, tasks=10)
    config = (project.root / "ratchet.toml").read_text()
    before, _, rest = config.partition("[upstreams.simulated]")
    project.write("ratchet.toml", before + rest[rest.index("[improve]") :])
    project.write("agent.py", RESPONSES)
    environ = {"OPENAI_BASE_URL": upstream.url, "OPENAI_API_KEY": "of-the-proxy"}
    done = project.ratchet("eval", "--split", "all", "--json", env=environ)
    assert done.returncode == 0, done.stderr
    keys = {dict(seen.headers)["authorization"] for seen in upstream.seen}
    assert keys == {"Bearer of-the-proxy"}
    with socket.create_server(("127.0.0.1", 0)) as free:
        away = f"127.0.0.1:{free.getsockname()[1]}"
    environ["OPENAI_BASE_URL"] = f"http://{away}/v1"
    done = project.ratchet("eval", "--split", "all", "--fresh", env=environ)
    assert f"The upstream 'openai' at {away} cannot be reached" in done.stdout + done.stderr
    environ["OPENAI_BASE_URL"] = away
    done = project.ratchet("eval", "--split", "all", "--fresh", env=environ)
    assert done.returncode == 2
    assert "OPENAI_BASE_URL is not the address" in done.stderr


def settings_of(upstream: StubUpstream) -> Any:
    model = Upstream(name="simulated", dialect="openai", base_url=upstream.url)
    return ServeSettings(port=0, upstreams=(model,))


def live_instructions(server: RunningServer, upstream: StubUpstream, agent: str = "support") -> str:
    """The instructions that reach the model when the live agent calls it."""
    body = {
        "model": "m",
        "instructions": "You answer for the shop. Say unknown where you don't know.",
        "input": "a question: plum",
    }
    url = f"{server.url}/gateway/{agent}/openai/v1/responses"
    httpx2.post(url, json=body, timeout=30).raise_for_status()
    return instructions_in(upstream.seen[-1])


def eventually(holds: Callable[[], bool], timeout_s: float = 20.0) -> bool:
    """Whether it holds within some time."""
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        if holds():
            return True
        threading.Event().wait(0.05)
    return False


class ShopService:
    """A service that runs all the time, and tells its model calls' rollouts by the header."""

    def __init__(self, gateway: str, *, echo: str | None = None, passes_on: bool = True) -> None:
        service = self
        self.lock = threading.Lock()
        self.echo = echo

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                task = json.loads(self.rfile.read(int(self.headers["content-length"])))
                rollout = self.headers["x-ratchet-rollout"]
                headers = {"x-ratchet-rollout": rollout} if passes_on else {}
                body = {
                    "model": "gpt-4o-mini",
                    "messages": [
                        {"role": "system", "content": " ".join(["You answer", "for the shop."])},
                        {"role": "user", "content": task["input"]},
                    ],
                }
                url = f"{gateway}/chat/completions"
                said = httpx2.post(url, json=body, headers=headers, timeout=30).json()
                answer = said["choices"][0]["message"]["content"].encode()
                self.send_response(200)
                self.send_header("content-length", str(len(answer)))
                self.send_header("x-ratchet-rollout", service.echo or rollout)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/answer"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.mark.parametrize(
    "server_runs",
    [
        pytest.param(False, id="server started"),
        pytest.param(True, id="server found", marks=pytest.mark.long),
    ],
)
def test_a_running_service_is_improved_and_its_calls_are_told_apart_by_a_header(
    make_agent: MakeAgent, upstream: StubUpstream, server_runs: bool
) -> None:
    port = free_port()
    service = ShopService(f"http://127.0.0.1:{port}/gateway/shop/openai/v1")
    project = make_agent(f'url = "{service.url}"\nname = "shop"', port=port)
    serving = None
    if server_runs:
        serving = subprocess.Popen(
            [sys.executable, "-m", "ratchet", "serve", "--json"],
            cwd=project.root,
            stdout=subprocess.PIPE,
            env=os.environ,
        )
        assert serving.stdout is not None
        assert json.loads(serving.stdout.readline())["url"].endswith(f":{port}")
    try:
        found = project.json("improve")
        assert (found["verdict"], found["active"]) == ("promote", "shop")
        with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
            rollouts, _ = store.rollouts.list(limit=500)
            calls = [len(store.spans.of(rollout.id)) for rollout in rollouts]
        assert set(calls) == {2}  # the POST and its one model call
    finally:
        service.close()
        if serving is not None:
            serving.terminate()
            serving.communicate(timeout=30)


def test_a_service_that_does_not_run_is_named(make_agent: MakeAgent) -> None:
    project = make_agent(f'url = "http://127.0.0.1:{free_port()}/"', port=free_port())
    done = project.ratchet("improve")
    assert done.returncode != 0
    assert "cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_with_another_store_at_the_services_gateway_is_refused(
    make_agent: MakeAgent, tmp_path: Path
) -> None:
    other = RunningServer(f"sqlite:///{tmp_path}/other.db")
    port = int(other.url.rpartition(":")[2])
    project = make_agent('url = "http://127.0.0.1:9/"', port=port)
    try:
        done = project.ratchet("improve")
    finally:
        other.stop()
    assert done.returncode != 0
    assert "a server with another store is running there" in done.stderr


BAD_AGENTS = {
    "never calls the gateway": ("print('hello')", "No prompt was seen"),
    "prints nothing": ("pass", "No prompt was seen"),
    "prints megabytes": ("print('x' * 20_000_000)", "printed more than"),
    "fails": ("raise SystemExit('the key is missing')", "the key is missing"),
    "forks and stays": (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('hello')",
        "No prompt was seen",
    ),
    "sends no prompt": (
        RESPONSES.replace('"instructions": " ".join(words), ', ""),
        "There is no prompt to improve: the agent's 12 model calls had no system message",
    ),
}


@pytest.mark.parametrize("kind", BAD_AGENTS)
def test_a_command_that_cannot_be_improved_is_refused_with_a_sentence(
    make_agent: MakeAgent, kind: str
) -> None:
    source, sentence = BAD_AGENTS[kind]
    project = make_agent(PYTHON)
    project.write("agent.py", source)
    project.commit()
    done = project.ratchet("improve")
    assert done.returncode != 0
    assert sentence in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_evaluating_an_agent_without_a_prompt_looks_for_one_once(
    make_agent: MakeAgent, upstream: StubUpstream
) -> None:
    project = make_agent(PYTHON)
    project.write("agent.py", BAD_AGENTS["sends no prompt"][0])
    first = project.ratchet("eval")
    assert "There is no prompt to improve" in " ".join(first.stdout.split())
    asked = len(upstream.seen)
    again = project.ratchet("eval")
    assert (again.returncode, len(upstream.seen)) == (0, asked), again.stderr


def test_tasks_without_an_answer_are_left_out_of_the_mean_that_compares(
    make_agent: MakeAgent,
) -> None:
    project = make_agent(PYTHON)
    rows = [{"input": f"question {number}", "expected": "fig"} for number in range(3)]
    tasks = [*rows, {"input": "question 4"}]
    project.write("tasks.jsonl", "".join(f"{json.dumps(row)}\n" for row in tasks))
    done = project.ratchet("eval", "--split", "all", "--json")
    assert "1 of 4 tasks has no expected answer: exact_match does not score it." in done.stderr
    [row] = json.loads(done.stdout)["candidates"]
    compared = next(entry for entry in row["evaluators"] if entry["evaluator"] == "exact_match")
    assert (compared["n"], compared["errors"]) == (3, 0)


def test_a_run_whose_model_calls_all_fail_says_so_though_the_agent_answers(
    make_agent: MakeAgent, upstream: StubUpstream
) -> None:
    project = make_agent(PYTHON)
    project.write(
        "agent.py",
        f"try:\n{textwrap.indent(TEMPLATE, '    ')}\nexcept OSError:\n    print('Sorry')\n",
    )
    upstream.answers({"error": {"message": "the model is gone"}}, 404)
    done = project.ratchet("run", "question 1")
    assert (done.returncode, "Sorry" in done.stdout) == (0, True), done.stderr
    assert "failed, but the agent answered without them" in " ".join(done.stderr.split())
    failed = project.ratchet("eval")
    assert failed.returncode == 3
    assert "ratchet eval --fresh" in failed.stderr
