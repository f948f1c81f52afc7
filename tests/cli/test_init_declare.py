"""`ratchet init --declare`: recorded prompts are declared, verified to the byte, and taken back."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.simulated_model import simulated_model
from tests.cli.test_init_watching import SHOP, repository
from tests.repositories import git
from tests.server.gateway.upstreams import StubUpstream

AGENT = SHOP["support/agent.py"]
COMMAND = ("--", sys.executable, "-m", "support", "Where is my pan?")


@pytest.fixture
def upstream() -> Iterator[StubUpstream]:
    model = simulated_model()
    yield model
    model.close()


def test_prompts_in_code_are_declared_and_reach_the_model_unchanged(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    shop = repository(tmp_path, upstream, SHOP)
    tree = git(shop.root, "rev-parse", "HEAD^{tree}")
    said = shop.init("--declare", *COMMAND)
    assert said["declared"] == ["system", "agent_prompt"]
    assert said["left_alone"] == []
    assert {finding["name"]: finding["holds"] for finding in said["findings"]} == {
        "model calls": True,
        "prompts": True,
        "changed prompt": True,
        "answer": True,
    }
    assert "The changed prompts arrived in 2 of 2 calls of a second run." in json.dumps(
        said["findings"]
    )
    assert "prompts" not in shop.settings["agent"]
    assert shop.settings["run"] == {"import_per_candidate": True}
    source = (shop.root / "support/agent.py").read_text()
    assert 'SYSTEM = str(ratchet.prompt("system", "You answer for the shop.' in source
    assert shop.is_clean, "all of it is one commit"
    ran = json.loads(shop.ratchet("run", "Where is my cup?", "--json").stdout)
    assert ran["rollouts"][0]["output"] == "cup?"
    assert shop.ratchet("init", "--undo").returncode == 0
    assert git(shop.root, "rev-parse", "HEAD^{tree}") == tree
    assert shop.is_clean


def test_a_prompt_in_a_settings_file_is_declared_there_and_no_code_changes(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    agent = (
        AGENT.replace(
            'SYSTEM = "You answer for the shop. Say unknown where you don\'t know."',
            'SYSTEM = json.load(open("prompts.json"))["desk"]["system"]',
        )
        .replace('ask("Sort', 'str("Sort')
        .replace('one word.", question)', 'one word.")')
    )
    texts = {"desk": {"system": "You answer for the shop. Say unknown where you don't know."}}
    files = {**SHOP, "support/agent.py": agent, "prompts.json": json.dumps(texts)}
    shop = repository(tmp_path, upstream, files)
    said = shop.init("--declare", *COMMAND)
    assert said["declared"] == ["prompts.desk.system"]
    assert shop.settings["prompt_files"] == [{"path": "prompts.json", "fields": ["desk.system"]}]
    assert git(shop.root, "diff", "--name-only", "main").split() == ["ratchet.toml", "tasks.jsonl"]


TESTS = """
    from pathlib import Path

    def test_the_folder_holds_the_agent():
        Path("left_by_a_test.txt").write_text("x")
        assert not Path("{forbidden}").exists()
"""


def test_the_projects_own_tests_are_run_before_and_after_and_leave_nothing(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    files = {
        **SHOP,
        "tests/test_shop.py": TESTS.format(forbidden="nothing.toml"),
        "pdm.lock": "",  # its environment is used even if pdm itself is not there
    }
    shop = repository(tmp_path, upstream, files)
    said = shop.init(*COMMAND)
    finding = said["findings"][-1]
    assert finding["name"] == "the project's tests"
    assert finding["holds"] is True, finding
    assert shop.is_clean
    assert not (shop.root / "left_by_a_test.txt").exists()


def test_tests_that_do_not_start_are_no_fault_of_the_wiring(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    broken = "import os\nos.write(2, b'no lock for process %d' % os.getpid())\nos._exit(2)\n"
    files = {**SHOP, "tests/test_shop.py": TESTS, "tests/conftest.py": broken}
    finding = repository(tmp_path, upstream, files).init(*COMMAND)["findings"][-1]
    assert finding["holds"] is None
    assert "The tests fail as before, with exit code 2" in finding["said"]


def test_a_command_that_runs_no_test_verifies_none(tmp_path: Path, upstream: StubUpstream) -> None:
    tests = "class ShopTest:\n    def test_is_open(self):\n        assert False\n"
    files = {**SHOP, "tests/test_shop.py": tests}
    finding = repository(tmp_path, upstream, files).init(*COMMAND)["findings"][-1]
    assert (finding["name"], finding["holds"]) == ("the project's tests", None)
    assert finding["said"].startswith("No test was found by: ")


def test_tests_that_the_wiring_breaks_are_reported(tmp_path: Path, upstream: StubUpstream) -> None:
    files = {**SHOP, "tests/test_shop.py": TESTS.format(forbidden="ratchet.toml")}
    shop = repository(tmp_path, upstream, files)
    said = shop.init(*COMMAND)
    finding = said["findings"][-1]
    assert finding["holds"] is False
    assert "exit code 1 (1 failed) instead of 0 (1 passed)" in finding["said"]
    shop.ratchet("init", "--undo")
    assert len(shop.init("--no-tests", *COMMAND)["findings"]) == 4


def test_an_input_that_was_not_given_is_refused_before_anything_runs(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    shop = repository(tmp_path, upstream, SHOP)
    done = shop.ratchet("init", "--yes", "--input", "Where is my cup?", *COMMAND)
    assert done.returncode == 2
    assert "'Where is my pan?'" in done.stderr
    assert upstream.seen == []
