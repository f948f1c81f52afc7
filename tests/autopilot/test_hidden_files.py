"""Expected answers, keys and credentials: hidden from all code that runs in a sandbox."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.autopilot.code_project import build, loaded
from tests.repositories import git

from ratchet.autopilot import Project
from ratchet.autopilot.checks import make_checks
from ratchet.autopilot.code_sandbox import hidden_paths, release_tests, with_sandbox
from ratchet.sandbox.levels import why_no_bubblewrap, why_no_landlock
from ratchet.ship import check
from ratchet.ship.check import TestReport, run_tests
from ratchet.ship.repository import Repository
from ratchet.types import Candidate, Claim, Code, ConfigError, Rollout
from ratchet.worker.inprocess import AsyncExecutor

LEVELS = [
    pytest.param(level, marks=pytest.mark.skipif(why != "", reason=f"no {level} here: {why}"))
    for level, why in (("bubblewrap", why_no_bubblewrap()), ("landlock", why_no_landlock()))
]

AGENT = '''"""An agent whose function evolves."""

import ratchet


@ratchet.evolve
def look(number: int) -> list:
    """What is found."""
    return []


@ratchet.agent
def answer(number):
    return look(number)


@ratchet.evaluator
def right(output, expected):
    return output == expected
'''

CONFIG = """
[ship]
"""

LOOK = '''def look(number: int) -> list:
    """What is found."""
    import json, os
    with open({facts!r}) as file:
        places = json.load(file)
    for top in [*places.pop(), os.getcwd()]:
        for folder, _, names in os.walk(top):
            places += [os.path.join(folder, name) for name in names]
    found = set()
    for place in places:
        try:
            with open(place, "rb") as file:
                if b"".join([b"mark", b"er"]) in file.read():
                    found.add(os.path.basename(place))
        except OSError:
            continue
    return sorted(found)
'''
"""Code of a candidate that reads whatever it can."""

SECRETS = (
    ".env",
    ".env.local",
    ".envrc",
    ".netrc",
    ".npmrc",
    "id_ed25519",
    "service/deep/.env.production",
    ".ssh/config",
    ".aws/credentials",
    ".git/hooks/pre-push",
    ".git/credentials",
    ".ratchet/evidence/decision.json",
    ".ratchet/journal",
    "answers.csv",
    "state/store.db",
    "state/store.db-wal",
)
"""Files of the project that no such code may read, beside the task file."""


TEST = 'test = "{python} check.py"'


class Place:
    """A project with secrets in all the places where they lie."""

    def __init__(self, folder: Path) -> None:
        self.root = build(folder / "project", "looking_agent", agent=AGENT, config=CONFIG, tasks=5)
        self.facts = self.root / "places.json"
        config = self.root / "ratchet.toml"
        config.write_text(
            config.read_text().replace(
                'use = "looking_agent:right"', 'use = "looking_agent:right"\nkey = "answers.csv"'
            )
            + '\n[store]\nurl = "sqlite:///state/store.db"\n'
        )
        tasks = self.root / "tasks.jsonl"
        task = {"id": "t9", "input": 9, "expected": ["marker"]}
        tasks.write_text(tasks.read_text() + json.dumps(task) + "\n")
        (self.root / "notes.txt").write_text("marker: this one may be read")
        (self.root / ".env.example").write_text("KEY=")
        (self.root / ".env.test").write_text("marker, committed")
        (self.root / "check.py").write_text("import looking_agent\nprint(looking_agent.look(0))\n")
        (self.root / "test_look.py").write_text(
            "import unittest\nfrom looking_agent import look\n\n\n"
            "class TestLook(unittest.TestCase):\n    def test_look(self):\n"
            "        self.assertLessEqual(set(look(0)), {'notes.txt'})\n"
        )
        git(self.root, "worktree", "add", "-q", "--detach", str(self.root / "trees" / "other"))
        other = self.root / "trees" / "other" / "tasks.jsonl"
        other.write_text("marker")
        (self.root / ".gitignore").write_text(
            "__pycache__/\ntrees/\nstate/\nservice/\n.*\n!.env.*\n.env.local\nid_*\nanswers.csv\n"
            "places.json\n"
        )
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "-m", "more")
        for name in SECRETS:
            file = self.root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("marker")
        paths = [*(self.root / name for name in SECRETS), tasks, other, self.root / ".env.test"]
        self.facts.write_text(json.dumps([*map(str, paths), [str(self.root)]]))
        self.source = LOOK.format(facts=str(self.facts))

    def project(self, *, ship: str = "", sandbox: str = "") -> Project:
        """The project, with more in these sections of its configuration."""
        config = self.root / "ratchet.toml"
        text = config.read_text().replace("[ship]", f"[ship]\n{ship}")
        config.write_text(f'{text}\n[sandbox]\nread = ["places.json"]\n{sandbox}\n')
        return Project.find(self.root)

    def candidate(self, project: Project, source: str = "") -> tuple[Any, Candidate, Candidate]:
        """The agent, its own candidate, and one that looks around."""
        agent = project.load_agent()
        baseline = project.source_candidate(agent)
        code = {"look": Code(source or self.source, "look")}
        return agent, baseline, baseline.derive(code, algorithm="given", reason="looks around")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    with loaded(made.root):
        yield made


def rollout_of(place: Place, level: str) -> Any:
    """What a candidate's code finds when it answers a task."""
    project = place.project(sandbox=f'level = "{level}"\nunsafe = true\nslots = 1')
    agent, _, candidate = place.candidate(project)
    usual = AsyncExecutor(project.agent_spec, slots=1, timeout_s=20.0)
    rollout = Rollout(
        id="r", queue="q", candidate_id=candidate.id, task_id="t9", input=9, expected=[], seed=1
    )

    async def main() -> Any:
        executor = with_sandbox(project, agent, usual)
        await executor.start()
        try:
            return await executor.execute(Claim(rollout, 1, 1e12), candidate.resources)
        finally:
            await executor.close()

    outcome = asyncio.run(main())
    assert outcome.status == "succeeded", outcome.error
    return outcome.output


@pytest.mark.parametrize("level", LEVELS)
def test_a_rollout_of_a_candidate_reads_none_of_it(place: Place, level: str) -> None:
    assert rollout_of(place, level) == ["notes.txt"]


def test_without_a_sandbox_a_rollout_would_read_all_of_it(place: Place) -> None:
    found = rollout_of(place, "none")
    assert {Path(name).name for name in SECRETS} <= set(found)
    assert {"tasks.jsonl", ".env.test", "notes.txt"} <= set(found)


@pytest.mark.parametrize("level", LEVELS)
def test_the_repositorys_tests_on_a_candidate_read_none_of_it(place: Place, level: str) -> None:
    project = place.project(sandbox=f'level = "{level}"')
    agent, baseline, candidate = place.candidate(project)
    # What it may read it does read, and then the test fails.
    greedy = place.source.replace("return sorted(found)", "return [*sorted(found), 'seen']")
    _, _, other = place.candidate(project, greedy)
    checks = make_checks(project, agent, baseline)

    async def faults() -> list[str]:
        return [await checks.test(candidate), await checks.test(other)]

    nothing, fault = asyncio.run(faults())
    assert nothing == ""
    assert "fails tests of the repository that pass without it" in fault
    assert "'seen'" in fault


def shipped(place: Place, project: Project, body: str = "") -> TestReport:
    """How the tests of a release end whose code is the candidate's."""
    repository = Repository.open(place.root)
    base = repository.head()
    if body:
        (place.root / "check.py").write_text(body)
    else:
        source = AGENT.replace('    """What is found."""\n    return []\n', "")
        head, _, tail = source.partition("def look(number: int) -> list:\n")
        (place.root / "looking_agent.py").write_text(head + place.source + tail)
    git(place.root, "commit", "-q", "-a", "-m", "candidate")
    return run_tests(repository, repository.head(), base, release_tests(project))


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("level", LEVELS)
def test_the_tests_of_a_release_read_none_of_it(
    place: Place, level: str, network: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "_level", lambda sandbox: level)
    # As `ratchet` does when it loads the agent.
    monkeypatch.syspath_prepend(str(place.root))
    project = place.project(ship=f"{TEST}\nnetwork = {str(network).lower()}")
    report = shipped(place, project)
    assert report.outcome == "passed", report.output
    assert report.output == "['notes.txt']\n"


def test_tests_that_need_a_hidden_file_are_told_how_it_is_shown(place: Place) -> None:
    body = "print(len(open('tasks.jsonl').readlines()))\n"
    report = shipped(place, place.project(ship=TEST), body)
    if report.contained == "without a sandbox":
        pytest.skip("no sandbox can be made on this machine")
    assert (report.outcome, report.base) == ("failed", "passed")
    assert "`tasks.jsonl`, which code in the sandbox must not read" in report.advice
    assert 'set show = ["tasks.jsonl"] under [ship]' in report.advice


@pytest.mark.parametrize("level", LEVELS)
def test_what_the_configuration_shows_the_tests_of_a_release_read(
    place: Place, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "_level", lambda sandbox: level)
    project = place.project(ship=f'{TEST}\nshow = ["tasks.jsonl", ".env.test"]')
    body = (
        "import pathlib\nprint(len(open('tasks.jsonl').readlines()), open('.env.test').read())\n"
        f"print(pathlib.Path({str(place.root)!r}, 'tasks.jsonl').exists())\n"
        "print(sorted(path.name for path in pathlib.Path().glob('.env*')))\n"
    )
    report = shipped(place, project, body)
    assert report.outcome == "passed", report.output
    assert report.output == "6 marker, committed\nTrue\n['.env.example', '.env.test']\n"


@pytest.mark.parametrize("name", [".ratchet", ".ratchet/journal", ".git/config", "."])
def test_what_ratchet_and_git_keep_is_never_shown(place: Place, name: str) -> None:
    project = place.project(ship=f'show = ["{name}"]')
    with pytest.raises(ConfigError, match="is never shown to code in a sandbox"):
        release_tests(project)


def test_an_environment_named_like_a_secret_is_none(place: Place) -> None:
    folder = place.root / "service" / ".env"
    folder.mkdir()
    project = place.project()
    assert folder in hidden_paths(project)
    (folder / "pyvenv.cfg").touch()
    assert folder not in hidden_paths(project)


def test_a_project_inside_a_repository_hides_the_repositorys_secrets_too(tmp_path: Path) -> None:
    place = Place(tmp_path)
    git(place.root, "mv", "tasks.jsonl", "service/tasks.jsonl")
    for name in ("looking_agent.py", "ratchet.toml"):
        git(place.root, "mv", name, f"service/{name}")
    found = hidden_paths(Project.find(place.root / "service"))
    assert place.root / ".env" in found
    assert place.root / ".git" in found
    assert place.root / "service" / "tasks.jsonl" in found
    assert place.root / "trees" / "other" / "service" / "tasks.jsonl" in found


def test_a_command_without_a_sandbox_has_the_whole_work_tree(place: Place) -> None:
    body = "print(len(open('tasks.jsonl').readlines()))\n"
    project = place.project(ship=f"{TEST}\nsandbox = false")
    assert shipped(place, project, body).output == "6\n"
