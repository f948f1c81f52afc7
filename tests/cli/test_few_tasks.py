"""The quickstart as it is written, and its agent with few tasks."""

from __future__ import annotations

import builtins
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ratchet.store import Store
from ratchet.types import Dataset
from tests.cli.conftest import INLINE, Project
from tests.ship.forges.fake_github import REPOSITORY, FakeGitHub

QUICKSTART = (Path(__file__).parents[2] / "docs" / "quickstart.md").read_text(encoding="utf-8")
BLOCKS = QUICKSTART.split("```")


def block(language: str, says: str) -> str:
    """The first code block of the quickstart in a language that says something."""
    return next(b for b in BLOCKS if b.startswith(f"{language}\n") and says in b).partition("\n")[2]


AGENT = block("python", "KNOBS.cutoff")
CONFIG = block("toml", 'entry = "agent:answer"')
# The real margin of the quickstart, but for a machine that does other things at the same time.
STEADY = CONFIG.replace("margin = 0.05", "off = true")


def spelling_tasks(count: int, seed: int) -> str:
    """Some of the tasks that the quickstart's `make_tasks.py` makes, in a random order."""
    names = [name for name in dir(builtins) if name.isalpha() and name.islower()]
    tasks = [(word, "unknown") for word in ("banana", "window", "quickly", "thirteen", "guitar")]
    for name in names:
        middle = len(name) // 2
        slips = (
            name + name[-1],
            name[:middle] + name[middle + 1 :],
            name[:middle] + "x" + name[middle:],
        )
        tasks += [(slip, name) for slip in slips]
    random.Random(seed).shuffle(tasks)
    lines = [json.dumps({"input": word, "expected": expected}) for word, expected in tasks[:count]]
    return "\n".join(lines) + "\n"


class Spelling(Project):
    """The quickstart's project with some of its tasks."""

    def __init__(self, root: Path, *, seed: int = 0) -> None:
        root.mkdir()
        super().__init__(root)
        self.seed = seed
        self.write("agent.py", AGENT)
        self.write("ratchet.toml", STEADY + INLINE)
        self.write(".gitignore", "__pycache__/\n")
        self.git("init", "-q", "-b", "main")

    def with_tasks(self, count: int) -> Spelling:
        """The project with this many tasks, committed."""
        self.write("tasks.jsonl", spelling_tasks(count, self.seed))
        self.commit()
        return self

    @property
    def store(self) -> Store:
        return Store.open(f"sqlite:///{self.root}/.ratchet/ratchet.db")

    def evidence(self, ended: dict[str, Any]) -> Any:
        """The evidence of a run that verifies."""
        assert self.json("verify", str(ended["evidence"]))["ok"] is True
        return json.loads(Path(str(ended["evidence"])).read_text(encoding="utf-8"))


def test_the_quickstart_runs_as_it_is_written(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("agent.py", AGENT)
    project.write("make_tasks.py", block("python", "json.dumps"))
    project.write("ratchet.toml", STEADY + INLINE)
    commands = [b.partition("\n")[2] for b in BLOCKS if b.startswith("sh\n")]
    assert len(commands) == 5
    _, trace, improve, check, serve = commands
    assert serve.strip() == "ratchet serve"
    identity = ("GIT_AUTHOR", "GIT_COMMITTER")
    env = {
        **os.environ,
        **{f"{who}_{what}": "t@t.invalid" for who in identity for what in ("NAME", "EMAIL")},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "200",
    }
    outputs = [
        subprocess.run(
            ["bash", "-e", "-c", text],
            cwd=tmp_path, env=env, capture_output=True, text=True, check=True, timeout=300,
        ).stdout
        for text in (trace, improve, check)
    ]  # fmt: skip
    assert outputs[0].startswith("unknown\n")
    assert "answer" in outputs[0].partition("\n")[2]
    assert "Proved better" in outputs[1]
    assert "recompute to the stated numbers" in outputs[2]


def test_the_agent_of_the_quickstart_with_40_tasks_ends_as_proved_or_not_proved(
    tmp_path: Path,
) -> None:
    project = Spelling(tmp_path / "spelling").with_tasks(40)
    done = project.ratchet("improve")
    assert done.returncode == 0, done.stderr
    assert "40 tasks: 16 train, 4 val, 20 test. Half of a small file is for test" in done.stdout
    assert "a candidate may raise errors by 0.2" in " ".join(done.stdout.split())
    ended = project.json("improve")
    assert ended["verdict"] in ("promote", "not_proved")
    assert ended["candidate"] > ended["baseline"]  # type: ignore[operator]
    assert project.evidence(ended)["plan"]["max_pairs"] == 20


@pytest.mark.parametrize("count", [3, 12, 80])
def test_any_number_of_tasks_has_a_sensible_end(tmp_path: Path, count: int) -> None:
    project = Spelling(tmp_path / "spelling").with_tasks(count)
    done = project.ratchet("improve")
    assert done.returncode == 0, done.stderr
    cannot = "cannot prove a gain: even a perfect candidate needs about 7 test tasks"
    assert (cannot in done.stdout) == (count < 14)
    ended = project.json("improve")
    assert ended["verdict"] in (("promote",) if count == 80 else ("not_proved", "no_gain"))


def test_rollouts_that_fail_are_counted_in_each_stage_with_their_error(tmp_path: Path) -> None:
    project = Spelling(tmp_path / "spelling").with_tasks(40)
    refusing = '    if "e" in word:\n        raise RuntimeError("5 requests a minute")\n'
    project.write("agent.py", AGENT.replace("    close =", f"{refusing}    close ="))
    project.commit()
    done = project.ratchet("improve")
    assert done.returncode == 0, done.stderr
    found = re.findall(r"(\d+) of (\d+) rollouts failed: (.*)", done.stdout)
    assert found, done.stdout
    assert all(0 < int(failed) < int(of) for failed, of, _ in found)
    assert all("5 requests a minute" in error for *_, error in found)


@pytest.mark.parametrize(("answer", "is_said"), [('"Welcome!"', True), ("word", False)])
def test_eval_says_if_all_tasks_get_the_same_answer(
    tmp_path: Path, answer: str, is_said: bool
) -> None:
    project = Spelling(tmp_path / "spelling").with_tasks(8)
    project.write("agent.py", f"{AGENT.partition('    close =')[0]}    return {answer}\n")
    done = project.ratchet("eval", "--split", "all")
    assert done.returncode == 0, done.stderr
    assert ("are the same: Welcome!" in done.stdout) == is_said


def test_added_tasks_continue_the_comparison_until_it_is_proved(tmp_path: Path) -> None:
    project = Spelling(tmp_path / "spelling").with_tasks(20)
    first = project.json("improve")
    assert (first["stage"], first["verdict"], first["branch"]) == ("not_proved",) * 2 + (None,)
    assert "more would do" in str(first["message"])
    pairs = project.evidence(first)["pairs"]
    assert "add test tasks" in project.ratchet("status").stdout
    assert "more test tasks would prove it" in project.ratchet("explain").stdout
    assert project.json("improve") == first, "the same command again finds the same end"

    # A change of learning alone does not keep added tasks from continuing the comparison.
    project.write("ratchet.toml", STEADY + INLINE + "[improve.budget]\nrollouts = 900\n")
    done = project.with_tasks(70).ratchet("improve")
    assert done.returncode == 0, done.stderr
    assert "of candidate" in done.stdout
    assert "which was not proved, continues." in done.stdout
    second = project.json("improve")
    assert (second["run"], second["candidate_id"]) == (first["run"], first["candidate_id"])
    assert second["verdict"] == "promote"
    assert second["branch"]
    proof = project.evidence(second)
    assert proof["pairs"][: len(pairs)] == pairs, "bit for bit: what was compared stays"
    assert proof["plan"]["stages"] == [10]
    assert proof["alpha"]["history"] == []
    with project.store as store:
        assert len(store.experiments.list()) == 1
        dataset = store.datasets.get(proof["dataset"]["version"])
    assert len(dataset.split("test")) > 50, "new tasks are for test, where a proof lacks them"
    assert len(dataset.split("train")) > 8, "and not all of them, so that more can be learned"


def test_a_changed_task_begins_another_comparison(tmp_path: Path) -> None:
    project = Spelling(tmp_path / "spelling").with_tasks(20)
    first = project.json("improve")
    project.with_tasks(70)
    compared = project.evidence(first)["pairs"][0]["task"]
    lines = [json.loads(line) for line in (project.root / "tasks.jsonl").read_text().splitlines()]
    with project.store as store:
        run = store.runs.get(str(first["run"]))
        assert run is not None
        [changed] = [t for t in store.datasets.get(run.dataset_version).tasks if t.id == compared]
    for line in lines:
        if line["input"] == changed.input:
            line["expected"] = "another answer"
    project.write("tasks.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    project.commit()
    second = project.json("improve")
    assert second["run"] != first["run"]
    assert project.evidence(second)["alpha"]["history"] == [False]


def splits(project: Spelling, run_id: object) -> Dataset:
    with project.store as store:
        run = store.runs.get(str(run_id))
        assert run is not None
        return store.datasets.get(run.dataset_version)


def test_what_learning_has_used_is_never_a_test_task(tmp_path: Path) -> None:
    project = Spelling(tmp_path / "spelling").with_tasks(40)
    first = splits(project, project.json("improve")["run"])
    used = {task.id for task in first.tasks if first.splits[task.id] != "test"}
    shares = "[tasks]\nsplit = { train = 0.1, val = 0.1, test = 0.8 }\n"
    project.write("ratchet.toml", STEADY + INLINE + shares + "[improve]\nseed = 1\n")
    project.commit()
    done = project.ratchet("improve")
    assert done.returncode == 0, done.stderr
    assert "of the test split are left out, because learning has used them." in done.stdout
    second = splits(project, project.json("improve")["run"])
    assert second.version != first.version
    assert used.isdisjoint(task.id for task in second.split("test"))


def test_the_baseline_is_paid_once_for_an_agent_and_its_tasks(tmp_path: Path) -> None:
    project = Spelling(tmp_path / "spelling").with_tasks(40)
    first = project.json("improve", "--no-ship")

    def learned(candidate_id: object) -> int:
        with project.store as store:
            found = store.rollouts.counts(purpose="learn/", candidate_id=str(candidate_id))
        return sum(found.values())

    paid = learned(first["baseline_id"])
    assert paid == 20, "16 train and 4 val tasks"
    project.write("ratchet.toml", STEADY + INLINE + "[improve.budget]\nrollouts = 500\n")
    project.commit()
    second = project.json("improve", "--no-ship")
    assert second["run"] != first["run"]
    assert learned(first["baseline_id"]) == paid
    with project.store as store:
        spent = store.journal.get(str(second["run"]), "finding")["rollouts"]
        known = store.rollouts.counts(queue=str(second["run"]), purpose="learn/")
    assert spent == sum(known.values()), "what an earlier run paid is not charged again"
    project.write("agent.py", AGENT.replace("n=1,", "n=2,"))
    project.commit("another agent")
    third = project.json("improve", "--no-ship")
    with project.store as store:
        again = store.rollouts.counts(
            queue=str(third["run"]), purpose="learn/", candidate_id=str(third["baseline_id"])
        )
    assert sum(again.values()) == 20, "another agent's baseline is another one"


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[FakeGitHub]:
    bare = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "-b", "main", "--bare", str(bare)], check=True)
    forge = FakeGitHub(bare)
    yield forge
    forge.stop()
    assert forge.violations == []


def test_a_draft_of_what_was_not_proved_is_a_branch_where_there_is_no_forge(
    tmp_path: Path,
) -> None:
    project = Spelling(tmp_path / "spelling").with_tasks(20)
    refused = project.ratchet("ship", "--draft")
    assert (refused.returncode, "there is no run" in refused.stderr) == (5, True)
    project.json("improve")
    done = project.ratchet("ship", "--draft")
    assert done.returncode == 0, done.stderr
    assert "Not proved: the draft is the branch ratchet/draft-spelling-" in done.stdout
    release = project.json("ship", "--draft")
    text = Path(str(release["pull_request"])).read_text()
    assert text.startswith("# Not proved: change `spelling` for `exact_match`\n\n**Not proved.**")
    assert "KNOBS" in project.git("diff", "main", str(release["branch"]))
    assert project.json("verify", str(release["evidence"]))["ok"] is True
    assert "not proved" in project.ratchet("releases").stdout
    assert project.ratchet("rollback").returncode == 0


def test_a_draft_request_says_not_proved_and_the_proof_takes_its_place(
    tmp_path: Path, forge: FakeGitHub
) -> None:
    where = f'forge = "github"\nrepository = "{REPOSITORY}"\napi_url = "{forge.url}"\n'
    project = Spelling(tmp_path / "spelling")
    config = (STEADY + INLINE).replace("[ship]\n", f"[ship]\nevidence = true\n{where}")
    project.write("ratchet.toml", config)
    project.with_tasks(20)
    project.git("remote", "add", "origin", str(forge.git))
    project.git("push", "-q", "origin", "main")
    token = {"GITHUB_TOKEN": forge.token}
    project.json("improve")
    done = project.ratchet("ship", "--draft", env=token)
    assert done.returncode == 0, done.stderr
    assert [sent.body["draft"] for sent in forge.sent if "draft" in (sent.body or {})] == [True]
    [request] = forge.requests
    assert request.title == "Not proved: change spelling for exact_match"
    assert "**Not proved.** The candidate looks better on 10 test tasks" in request.body
    assert project.ratchet("ship", "--draft", env=token).returncode == 0
    assert len(forge.requests) == 1

    project.with_tasks(70)
    project.git("push", "-q", "origin", "main")
    assert project.json("improve")["verdict"] == "promote"
    done = project.ratchet("ship", env=token)
    assert done.returncode == 0, done.stderr
    draft, proved = forge.requests
    assert (draft.state, proved.state) == ("closed", "open")
    assert proved.title.startswith("Improve spelling: exact_match +")
