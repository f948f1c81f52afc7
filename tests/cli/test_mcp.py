"""`ratchet mcp` as a coding agent uses it: the SDK's own client, over stdio, to a real process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from mcp.client import Client

from ratchet._http import httpx2
from tests import interpreters
from tests.cli.conftest import CONFIG, INLINE, MakeProject
from tests.cli.mcp_client import ask, given, refused
from tests.cli.simulated_model import simulated_model
from tests.cli.test_init_watching import SHOP
from tests.cli.test_init_watching import repository as wired_shop
from tests.repositories import committed


def test_an_assistant_looks_runs_reads_traces_improves_and_explains(
    make_project: MakeProject,
) -> None:
    project = make_project(config=CONFIG + INLINE)
    head = project.git("rev-parse", "HEAD")

    async def conversation(client: Client) -> None:
        tools = {one.name: one for one in (await client.list_tools()).tools}
        assert {"look", "wire", "undo", "doctor", "run", "traces", "show"} < set(tools)
        assert all(one.output_schema and one.annotations for one in tools.values())
        assert tools["look"].annotations.read_only_hint  # type: ignore[union-attr]
        assert tools["undo"].annotations.destructive_hint  # type: ignore[union-attr]

        looked = await given(client, "look")
        assert looked["data"]["languages"][0]["name"] == "Python"
        ran = await given(client, "run", split="val", limit=2)
        rollout = ran["data"]["rollouts"][0]
        assert rollout["scores"]["closeness"]["value"] == rollout["output"]
        edited = (project.root / "agent.py").read_text().replace("- 0.6)", "- 0.7)")
        (project.root / "agent.py").write_text(edited)
        again = await given(client, "run", split="val", limit=1)
        assert again["data"]["rollouts"][0]["output"] == 0.3, "the agent as it is now"
        project.git("checkout", "-q", "agent.py")
        traces = await given(client, "traces", rollouts=True)
        assert len(traces["data"]["traces"]) == 3
        shown = await given(client, "show", id=rollout["id"], part="/spans/0")
        assert shown["data"]["name"]

        assert "No improvement was started" in await refused(client, "improve_status")
        said: list[str] = []

        async def progress(number: float, total: float | None, message: str | None) -> None:
            said.append(message or "")

        result = await client.call_tool("improve", {"wait_s": 90}, progress_callback=progress)
        ended = result.structured_content or {}
        assert ended["data"]["state"] == "ended", ended
        assert ended["data"]["outcome"]["verdict"] == "promote"
        assert said
        explained = await given(client, "explain")
        assert explained["data"]["kind"] == "experiment"
        assert "instruction" in explained["note"]
        changed = await given(client, "diff")
        assert "+KNOBS" in changed["data"]["diff"]
        assert (await given(client, "releases"))["data"]["releases"] == []
        shipped = await given(client, "improve", ship=True, wait_s=60)
        branch = shipped["data"]["outcome"]["branch"]
        assert branch in project.git("branch")
        assert (await given(client, "rollback"))["data"]["state"] == "rolled_back"
        assert branch not in project.git("branch")

    ask(project.root, conversation)
    assert project.git("rev-parse", "HEAD") == head
    assert project.git("branch", "--format", "%(refname:short)").split() == ["main"]


def test_refusals_are_the_sentences_of_the_command_line(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "ratchet.toml").write_text(CONFIG)
    (tmp_path / ".git").mkdir()
    (inside / "out").symlink_to(tmp_path)

    async def conversation(client: Client) -> None:
        for path in ("..", "/", "out", "../inside/.."):
            assert "outside" in await refused(client, "look", path=path)
        assert "outside" in await refused(client, "run", input="x")
        assert "outside" in await refused(client, "undo", commit=True)
        assert "is not a folder" in await refused(client, "look", path="none")
        assert "There is no part '/nothing'" in await refused(client, "look", part="/nothing")
        assert "limit" in await refused(client, "traces", limit=0)

    ask(inside, conversation)


def test_a_budget_is_only_lowered_and_an_improvement_is_stopped_and_continued(
    make_project: MakeProject,
) -> None:
    budget = "[improve.budget]\nseconds = 60\n"
    slow = "def answer(number):\n    import time; time.sleep(0.05)\n"
    project = make_project(config=CONFIG + INLINE + budget)
    source = (project.root / "agent.py").read_text()
    (project.root / "agent.py").write_text(source.replace("def answer(number):\n", slow))
    project.git("commit", "-qam", "slower")

    async def conversation(client: Client) -> None:
        assert "at most 60" in await refused(client, "improve", seconds=61)
        started = await given(client, "improve", wait_s=0)
        assert started["data"]["state"] == "running"
        assert "An improvement is already running" in await refused(client, "improve")
        stopped = await given(client, "improve_cancel")
        assert stopped["data"]["state"] in ("cancelled", "ended")

    ask(project.root, conversation)
    assert project.git("status", "--porcelain") == ""


def test_the_entry_is_added_and_removed_and_nothing_else(make_project: MakeProject) -> None:
    project = make_project()
    file = project.root / ".mcp.json"
    assert project.ratchet("mcp", "--install").returncode == 0
    entry = json.loads(file.read_text())["mcpServers"]["ratchet"]
    assert entry["args"][-1] == "mcp"
    assert project.ratchet("mcp", "--uninstall").returncode == 0
    assert not file.exists()
    others = {"mcpServers": {"other": {"command": "x"}}, "inputs": []}
    file.write_text(json.dumps(others))
    project.ratchet("mcp", "--install")
    project.ratchet("mcp", "--uninstall")
    assert json.loads(file.read_text()) == others
    file.write_text('{"mcpServers": {"ratchet": {"command": "mine"}}}')
    assert "a different entry" in project.ratchet("mcp", "--install").stderr
    file.write_text("{")
    assert "cannot be read" in project.ratchet("mcp", "--install").stderr


LIBRARY = """\
import openai

RULES = "You answer readers of a public library, and you say how long each book may be kept."


def ask(question: str) -> str:
    answer = openai.OpenAI().chat.completions.create(
        model="gpt-4o-mini",
        messages=[{"role": "system", "content": RULES}, {"role": "user", "content": question}],
    )
    return answer.choices[0].message.content
"""


def library(root: Path) -> Path:
    """A git repository with an agent that nobody prepared."""
    root.mkdir()
    (root / "desk.py").write_text(LIBRARY)
    (root / "requirements.txt").write_text("openai\n")
    (root / "questions.jsonl").write_text('{"question": "Is it lent?", "answer": "No."}\n')
    return committed(root)


def test_an_assistant_wires_by_a_command_and_is_told_what_was_verified(tmp_path: Path) -> None:
    model = simulated_model()
    shop = wired_shop(tmp_path, model, SHOP)
    command = [sys.executable, "-m", "support", "Where is my pan?"]

    async def conversation(client: Client) -> None:
        assert "either command, or url" in await refused(client, "wire")
        assert "No wiring was started" in await refused(client, "wire_status")
        planned = await given(client, "wire", command=command, wait_s=120)
        assert '+entry = "support.agent:answer"' in planned["data"]["outcome"]["diff"]
        assert shop.is_clean, "without commit nothing is written"
        started = await given(client, "wire", command=command, tests=False, commit=True, wait_s=0)
        assert started["data"]["state"] == "running"
        assert "A wiring is already running" in await refused(client, "wire", command=command)
        ended = await given(client, "wire_status", wait_s=120)
        outcome = ended["data"]["outcome"]
        assert outcome["mode"] == "entry", ended
        assert all(finding["holds"] for finding in outcome["findings"])
        assert outcome["not_verified"]
        assert "undo" in await refused(client, "wire", command=command, commit=True)
        assert (await given(client, "undo", commit=True))["data"]["branch"] == "main"

    ask(shop.root, conversation, OPENAI_BASE_URL=model.url, OPENAI_API_KEY="sk-of-the-owner")
    model.close()
    assert shop.is_clean


def test_a_wiring_is_stopped_and_nothing_is_written(tmp_path: Path) -> None:
    model = simulated_model()
    slow = {"slow.py": "import time\nprint('waiting', flush=True)\ntime.sleep(300)\n"}
    shop = wired_shop(tmp_path, model, slow)

    async def conversation(client: Client) -> None:
        command = [sys.executable, "slow.py"]
        await given(client, "wire", command=command, commit=True, wait_s=0)
        stopped = await given(client, "wire_cancel")
        assert stopped["data"]["state"] == "cancelled"
        assert "Nothing was written" in stopped["data"]["message"]

    ask(shop.root, conversation)
    model.close()
    assert shop.is_clean


def test_over_http_the_address_holds_a_secret_and_other_origins_are_refused(tmp_path: Path) -> None:
    root = library(tmp_path / "library")
    command = [sys.executable, "-m", "ratchet", "mcp", "--http", "0"]
    with interpreters.Interpreter(command, cwd=root, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()

            async def talk() -> None:
                async with Client(address) as client:
                    looked = await given(client, "look")
                    assert looked["data"]["prompts"][0]["name"] == "RULES"
                    assert "outside" in await refused(client, "look", path="..")

            asyncio.run(asyncio.wait_for(talk(), 60))
            bare = address.rpartition("/")[0].rpartition("/")[0]
            assert httpx2.post(f"{bare}/mcp", json={}).status_code == 404
            for headers in ({"Origin": "https://example.com"}, {"Host": "example.com"}):
                assert httpx2.post(address, json={}, headers=headers).status_code in (403, 421)
            port = address.split(":")[2].partition("/")[0]
            taken = interpreters.run([*command[:-1], port], cwd=root)
            assert f"Port {port} cannot be used" in taken.stderr
        finally:
            server.terminate()
