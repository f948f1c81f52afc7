"""A whole walk by tools alone: look, wire, run, improve, ship, roll back, undo, in few words.

The client, the server, the repository and its remote are real. The model and the forge are
simulators.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from tests.cli.mcp_client import ask, called
from tests.cli.simulated_model import simulated_model
from tests.server.gateway.upstreams import StubUpstream
from tests.ship.forges.fake_github import REPOSITORY, FakeGitHub

BUDGET = 60_000
"""Characters of all answers together."""

DESK = """\
import openai

RULES = "Name the product that the customer asks for, written as our labels have it, and no more."


def ask(question: str) -> str:
    answer = openai.OpenAI().chat.completions.create(
        model="gpt-4o-mini",
        messages=[{"role": "system", "content": RULES}, {"role": "user", "content": question}],
    )
    return answer.choices[0].message.content


if __name__ == "__main__":
    import sys

    print(ask(sys.argv[1]))
"""
TESTS = """\
import desk


def test_the_rules_name_the_product():
    assert "product" in str(desk.RULES)
"""
SETTINGS = """
[tasks]
file = "questions.jsonl"
input = "question"
expected = "answer"
[[evaluators]]
use = "exact_match"
[improve]
algorithm = "few_shot"
[prove]
repetitions = 1
""" + "".join(
    f'\n[[guardrails]]\nmetric = "{metric}"\noff = true\n' for metric in ("latency", "cost")
)
SHIP = """
[ship]
test = "{{python}} -m pytest"
forge = "github"
repository = "{repository}"
api_url = "{url}"
"""


@pytest.fixture
def model() -> Iterator[StubUpstream]:
    """The simulated model: capitals once its instructions show an example of them."""
    running = simulated_model()
    yield running
    running.close()


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[FakeGitHub]:
    bare = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "-b", "main", "--bare", str(bare)], check=True)
    running = FakeGitHub(bare)
    yield running
    running.stop()
    assert running.violations == []


def git(root: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@t.invalid"]
    done = subprocess.run(
        ["git", *identity, *words], cwd=root, check=True, capture_output=True, text=True
    )
    return done.stdout


def desk(root: Path, remote: Path) -> Path:
    """The repository of an agent, with questions and a test, that nobody prepared."""
    root.mkdir()
    (root / "desk.py").write_text(DESK)
    (root / "test_desk.py").write_text(TESTS)
    (root / "requirements.txt").write_text("openai\n")
    names = [f"{a}{b}{c}" for a in "bdfk" for b in "aeiou" for c in "lmnrst"]
    asked = [{"question": f"Please: {name}", "answer": name.upper()} for name in names]
    (root / "questions.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in asked))
    git(root, "init", "-qb", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "the agent")
    git(root, "remote", "add", "origin", str(remote))
    git(root, "push", "-q", "origin", "main")
    return root


@pytest.mark.long
def test_a_whole_walk_by_tools_takes_few_words(
    tmp_path: Path, model: StubUpstream, forge: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Someone")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "someone@example.com")
    root = desk(tmp_path / "desk", forge.git)
    sizes: dict[str, int] = {}

    async def conversation(client: Client) -> None:
        async def step(tool: str, **arguments: Any) -> Any:
            text, result = await called(client, tool, **arguments)
            assert not result.is_error, text
            sizes[tool] = sizes.get(tool, 0) + len(text)
            return result.structured_content["data"]

        await step("look")
        command = [sys.executable, "desk.py", "Please: bal"]
        wired = await step("wire", command=command, declare=True, commit=True, wait_s=200)
        assert wired["state"] == "ended", wired
        outcome = wired["outcome"]
        assert outcome["declared"] == ["rules"]
        holds = {finding["name"]: finding["holds"] for finding in outcome["findings"]}
        assert set(holds.values()) == {True}, holds
        assert outcome["branch"] == "ratchet/init"
        # What a person decides: which tasks score it, how to learn, where releases are proposed.
        with (root / "ratchet.toml").open("a") as file:
            file.write(SETTINGS + SHIP.format(repository=REPOSITORY, url=forge.url))
        git(root, "commit", "-qam", "settings")
        git(root, "push", "-q", "origin", "HEAD:main")
        git(root, "switch", "-q", "-C", "main")

        assert (await step("status"))["newest_run"] is None
        ran = await step("run", split="val", limit=2)
        assert [*ran][:3] == ["candidate", "failed", "mean"], "the mean comes before the list"
        assert set(ran["mean"].values()) >= {0.0}
        measured = await step("evaluate", limit=10, wait_s=60)
        assert measured["state"] == "ended"
        improved = await step("improve", rollouts=400, ship=True, wait_s=0)
        for _ in range(10):
            if improved["state"] != "running":
                break
            improved = await step("improve_status", wait_s=30)
        assert improved["state"] == "ended", improved
        outcome = improved["outcome"]
        assert outcome["verdict"] == "promote", outcome
        await step("explain")
        assert "+" in (await step("diff"))["diff"]
        await step("traces", rollouts=True, limit=5)
        await step("show", id=ran["rollouts"][0]["id"])
        previewed = await step("ship")
        assert previewed["push"]["branch"] == outcome["branch"]
        assert forge.requests == []
        shipped = await step("ship", send=True)
        assert forge.requests[0].branch == outcome["branch"] == shipped["branch"]
        (release,) = (await step("releases"))["releases"]
        assert release["state"] == "proposed"
        assert (await step("rollback"))["state"] == "rolled_back"
        assert "ratchet.toml" in (await step("undo"))["removed"]
        assert (await step("undo", commit=True))["branch"] == "main"

    environ = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "none"}
    ask(root, conversation, GITHUB_TOKEN=forge.token, **environ)
    assert sum(sizes.values()) <= BUDGET, sizes
    assert (root / "desk.py").read_text() == DESK
