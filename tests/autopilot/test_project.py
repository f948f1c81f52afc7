"""A project: found from any folder in it, and what its configuration leads to."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.autopilot import Project
from ratchet.autopilot.guardrails import guardrails_of
from ratchet.autopilot.project_evaluators import objective_of, project_evaluators
from ratchet.autopilot.project_tasks import project_dataset
from ratchet.bind import registry
from ratchet.cli.selection import select_tasks
from ratchet.llm import Usage, dollars
from ratchet.prove import Guardrail
from ratchet.types import ConfigError, InputError, Int, Params, Run, StoreError, Task
from ratchet.worker.agent import Agent

AGENT = """
import ratchet

KNOBS = ratchet.params("knobs", k=ratchet.Int(5, 1, 20))

@ratchet.agent
def answer(question):
    return question

@ratchet.rollout
def rewarded(task):
    return 1.0

def judge(output):
    return 1.0
"""

MODULES = itertools.count()
MakeProject = Callable[..., Project]


@pytest.fixture(autouse=True)
def without_a_store_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store's place is what the project says."""
    monkeypatch.delenv("RATCHET_STORE", raising=False)


@pytest.fixture
def make_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeProject:
    """A project with an agent, and what its `ratchet.toml` says beyond that."""
    registry.forget()
    module = f"agent_of_a_project_{next(MODULES)}"
    (tmp_path / f"{module}.py").write_text(AGENT)
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(text: str = "", function: str = "answer") -> Project:
        entry = f'[agent]\nentry = "{module}:{function}"\n'
        (tmp_path / "ratchet.toml").write_text(entry + text.replace("MODULE", module))
        return Project.find(tmp_path)

    return make


def parts(project: Project) -> tuple[Agent, tuple[str, ...]]:
    agent = project.load_agent()
    return agent, tuple(e.name for e in project_evaluators(project))


def objective(project: Project) -> str:
    agent = project.load_agent()
    return objective_of(project.config, project_evaluators(project), agent)


def guardrails(project: Project) -> dict[str, Guardrail]:
    made = guardrails_of(project.config, project_evaluators(project))
    return {guardrail.metric: guardrail for guardrail in made}


EXACT = '[[evaluators]]\nuse = "exact_match"\n'


def test_the_prices_that_a_project_configures_hold_until_another_is_opened(
    make_project: MakeProject,
) -> None:
    usage = Usage(input_tokens=2_000_000)
    make_project('[prices."my/model"]\ninput = 0.5\noutput = 0\n')
    assert dollars("", "my/model", usage) == 1.0
    make_project()
    assert dollars("", "my/model", usage) is None


def test_a_project_is_found_from_any_folder_in_it(
    make_project: MakeProject, tmp_path: Path
) -> None:
    make_project()
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert Project.find(deep).root == tmp_path.resolve()
    (tmp_path / "a" / "ratchet.toml").write_text('[agent]\nentry = "x:y"\n')
    assert Project.find(deep).root == (tmp_path / "a").resolve()


def test_a_folder_outside_of_any_project_is_named(tmp_path: Path) -> None:
    if any((folder / "ratchet.toml").exists() for folder in tmp_path.resolve().parents):
        pytest.skip("the temporary folder lies in a project")
    with pytest.raises(ConfigError, match=r"no ratchet.toml in") as raised:
        Project.find(tmp_path / "missing" / "folder")
    assert str(tmp_path) in raised.value.message


def test_the_store_is_in_the_project_unless_something_says_otherwise(
    make_project: MakeProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert make_project().store_url == f"sqlite:///{tmp_path.resolve()}/.ratchet/ratchet.db"
    named = make_project('[store]\nurl = "postgresql://host/name"\n')
    assert named.store_url == "postgresql://host/name"
    monkeypatch.setenv("RATCHET_STORE", "sqlite:////tmp/elsewhere.db")
    assert named.store_url == "sqlite:////tmp/elsewhere.db"


def test_git_ignores_the_state_folder(make_project: MakeProject) -> None:
    project = make_project()
    with project.open_store():
        pass
    assert (project.state / ".gitignore").read_text() == "*\n"
    (project.state / ".gitignore").write_text("mine\n")
    project.prepare_state()
    assert (project.state / ".gitignore").read_text() == "mine\n"


def test_a_state_folder_that_cannot_be_made_is_named(make_project: MakeProject) -> None:
    project = make_project()
    project.state.write_text("a file stands in the way")
    with pytest.raises(StoreError, match=r"\.ratchet cannot be written: (File exists|Not a dir)"):
        project.prepare_state()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_project_is_named(make_project: MakeProject, tmp_path: Path) -> None:
    project = make_project()
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreError, match="cannot be written: Permission denied"):
            project.prepare_state()
    finally:
        tmp_path.chmod(0o700)


def test_the_source_candidate_holds_the_sources_own_resources(make_project: MakeProject) -> None:
    project = make_project()
    candidate = project.source_candidate(project.load_agent())
    assert candidate.resources == {"knobs": Params({"k": Int(5, 1, 20)})}
    assert candidate.algorithm == "source"


def test_the_dataset_is_read_with_the_files_own_keys(
    make_project: MakeProject, tmp_path: Path
) -> None:
    project = make_project(
        '[tasks]\nfile = "data/mine.jsonl"\ninput = "q"\nexpected = "a"\ngroup_by = "expected"\n'
        "[tasks.split]\ntrain = 0.6\nval = 0.2\ntest = 0.2\n"
    )
    lines = [json.dumps({"q": f"question {i}", "a": f"answer {i // 2}"}) for i in range(200)]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.jsonl").write_text("\n".join([*lines, "bad"]))
    with pytest.raises(InputError, match=r"mine.jsonl:201"):
        project_dataset(project)
    dataset, bad = project_dataset(project, skip_bad=True)
    assert (dataset.name, len(dataset.tasks), len(bad)) == ("mine", 200, 1)
    assert len(dataset.split("train")) > 80
    by_answer = {(t.expected, dataset.splits[t.id]) for t in dataset.tasks}
    assert len(by_answer) == 100


def stating(folder: Path, *splits: str | None) -> None:
    rows = [
        {"input": f"question {word}", "split": split, "n": number}
        for number, (word, split) in enumerate(zip("abcdefghij", splits, strict=False))
    ]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("shares", ["", "[tasks.split]\ntrain = 0.9\nval = 0.05\ntest = 0.05\n"])
def test_the_split_that_a_task_states_is_its_split(
    make_project: MakeProject, tmp_path: Path, shares: str
) -> None:
    stating(tmp_path, "test", "Validation", "train", "test", "dev", None, "holdout")
    dataset, _ = project_dataset(make_project(shares))
    assert [dataset.splits[task.id] for task in dataset.tasks][:5] == [
        "test",
        "val",
        "train",
        "test",
        "val",
    ]
    assert [task.metadata.get("split") for task in dataset.tasks] == [*[None] * 6, "holdout"]


def test_a_task_that_learning_used_is_no_test_task_though_it_states_that(
    make_project: MakeProject, tmp_path: Path
) -> None:
    stating(tmp_path, "train", "val", "test", "test")
    project = make_project()
    dataset, _ = project_dataset(project)
    with project.open_store() as store:
        store.datasets.put(dataset, 1.0)
        store.runs.put(
            Run(
                id="r",
                agent="m:f",
                seed=1,
                stage="learn",
                created_at=1.0,
                updated_at=1.0,
                dataset_version=dataset.version,
            )
        )
        stating(tmp_path, "test", "test", "train", "test", "val", "test")
        file = tmp_path / "tasks.jsonl"
        file.write_text(file.read_text() + '{"input": "Question B?", "split": "test"}\n')
        after, _ = project_dataset(project, store=store)
    assert [after.splits[task.id] for task in after.tasks] == [
        "train",
        "val",
        "train",
        "test",
        "val",
        "test",
        "val",  # it says nearly the same as the second
    ]
    assert "3 tasks of the test split are left out" in after.reason


@pytest.mark.parametrize("shares", ["", "[tasks.split]\ntrain = 0.5\nval = 0.25\ntest = 0.25\n"])
def test_only_the_splits_that_are_asked_for_need_tasks(
    make_project: MakeProject, tmp_path: Path, shares: str
) -> None:
    def selected(split: str) -> list[Task]:
        project = make_project(shares)
        return select_tasks(project, split, limit=None, skip_bad=False, say=print).tasks

    stating(tmp_path, "val", "val", "val")
    assert len(selected("val")) == len(selected("all")) == 3
    with pytest.raises(InputError, match=r"No task of tasks\.jsonl is in the train split"):
        project_dataset(make_project(shares))
    with pytest.raises(InputError, match=r"No task of tasks\.jsonl is in the test split"):
        selected("test")
    stating(tmp_path, None)
    assert len(selected("all")) == 1
    with pytest.raises(InputError, match=r"No task is in|are too few"):
        project_dataset(make_project(shares))


def test_latency_and_cost_are_always_measured(make_project: MakeProject) -> None:
    assert parts(make_project(EXACT))[1] == ("exact_match", "latency", "cost")
    assert parts(make_project(f'[[evaluators]]\nuse = "cost"\n{EXACT}'))[1] == (
        "cost",
        "exact_match",
        "latency",
    )


def test_a_users_own_evaluator_is_found_beside_the_agent(make_project: MakeProject) -> None:
    assert parts(make_project('[[evaluators]]\nuse = "MODULE:judge"\n'))[1][0] == "judge"


def test_a_users_own_evaluator_is_found_beside_an_agent_in_another_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "shell_checks.py").write_text(
        "import ratchet\n\n@ratchet.evaluator\ndef is_short(output):\n    return 1.0\n"
    )
    (tmp_path / "ratchet.toml").write_text(
        '[agent]\ncommand = "sh agent.sh"\n\n[[evaluators]]\nuse = "shell_checks:is_short"\n'
    )
    evaluators = project_evaluators(Project.find(tmp_path))
    assert [evaluator.name for evaluator in evaluators] == ["is_short", "latency", "cost"]


def test_without_an_evaluator_there_is_nothing_to_improve_by(make_project: MakeProject) -> None:
    unscored = make_project()
    assert parts(unscored)[1] == ("latency", "cost")
    with pytest.raises(ConfigError, match="names no evaluator"):
        objective(unscored)
    project = make_project(function="rewarded")
    assert parts(project)[1] == ("latency", "cost")
    assert objective(project) == "reward"


def test_two_evaluators_of_one_name_are_refused_and_may_be_renamed(
    make_project: MakeProject,
) -> None:
    twice = '[[evaluators]]\nuse = "regex"\npattern = "a"\n' * 2
    with pytest.raises(ConfigError, match="Two evaluators are named 'regex'") as raised:
        parts(make_project(twice))
    assert "name = " in str(raised.value.hint)
    assert parts(make_project(twice + 'name = "other"\n'))[1][:2] == ("regex", "other")


def test_an_evaluators_file_lies_in_the_project(
    make_project: MakeProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "schema.json").write_text('{"type": "object"}')
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    text = '[[evaluators]]\nuse = "json_schema"\nfile = "schema.json"\n'
    assert parts(make_project(text))[1][0] == "json_schema"


def test_an_evaluator_that_does_not_exist_is_named(make_project: MakeProject) -> None:
    with pytest.raises(
        ConfigError, match=r"no evaluator 'exact_macth'. Did you mean 'exact_match'"
    ):
        parts(make_project('[[evaluators]]\nuse = "exact_macth"\n'))


def test_the_objective_is_the_first_evaluator_or_the_one_named(make_project: MakeProject) -> None:
    two = f'{EXACT}[[evaluators]]\nuse = "contains"\n'
    assert objective(make_project(two)) == "exact_match"
    assert objective(make_project(f'{two}[objective]\nevaluator = "contains"\n')) == "contains"
    assert objective(make_project(f'{two}[objective]\nevaluator = "reward"\n')) == "reward"


def test_an_objective_that_cannot_rise_to_one_is_refused(make_project: MakeProject) -> None:
    with pytest.raises(ConfigError, match=r"'exact' names no evaluator; there are \['exact_match'"):
        objective(make_project(f'{EXACT}[objective]\nevaluator = "exact"\n'))
    with pytest.raises(ConfigError, match="'latency' is measured in s") as raised:
        objective(make_project(f'{EXACT}[objective]\nevaluator = "latency"\n'))
    assert "within" in str(raised.value.hint)
    with pytest.raises(ConfigError, match="'cost' is measured in USD"):
        objective(make_project('[[evaluators]]\nuse = "cost"\n'))
    limited = '[[evaluators]]\nuse = "latency"\nwithin = 2\n'
    assert objective(make_project(limited)) == "latency"


def test_three_guardrails_hold_by_default(make_project: MakeProject) -> None:
    made = guardrails(make_project(EXACT))
    assert {name: (g.margin, g.aggregate, g.unit, g.floor) for name, g in made.items()} == {
        "errors": (0.1, "mean", "", 0.0),
        "latency": (0.5, "relative", "s", 0.1),
        "cost": (0.25, "relative", "USD", 0.0),
    }


def test_a_guardrail_replaces_the_default_of_its_metric(make_project: MakeProject) -> None:
    made = guardrails(
        make_project(
            f'{EXACT}[[evaluators]]\nuse = "contains"\n'
            '[[guardrails]]\nmetric = "latency"\nmargin = 0.05\n'
            '[[guardrails]]\nmetric = "cost"\nrelative_margin = 0.1\n'
            '[[guardrails]]\nmetric = "errors"\noff = true\n'
            '[[guardrails]]\nmetric = "contains"\nmargin = 0.02\n'
        )
    )
    assert made == {
        "latency": Guardrail("latency", 0.05, scale=0.2, unit="s"),
        "cost": Guardrail("cost", 0.1, unit="USD", aggregate="relative"),
        "contains": Guardrail("contains", 0.02, lower_is_better=False),
    }


def test_a_scale_of_ones_own_is_kept(make_project: MakeProject) -> None:
    text = f'{EXACT}[[guardrails]]\nmetric = "latency"\nmargin = 0.05\nscale = 1.0\n'
    assert guardrails(make_project(text))["latency"].scale == 1.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('metric = "latncy"\nmargin = 0.1', "'latncy' names no metric; there are"),
        ('metric = "latncy"\noff = true', "'latncy' names no metric; there are"),
        (
            'metric = "cost"\nmargin = 0.1\n[[guardrails]]\nmetric = "cost"\nrelative_margin = 0.1',
            "Two guardrails are set for 'cost'",
        ),
    ],
)
def test_a_guardrail_that_makes_no_sense_is_refused(
    make_project: MakeProject, text: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        guardrails(make_project(f"{EXACT}[[guardrails]]\n{text}\n"))


def test_a_margin_beyond_its_scale_is_refused(make_project: MakeProject) -> None:
    with pytest.raises(
        InputError, match=r"'exact_match': margin 2.0 is not between 0 and its scale"
    ):
        guardrails(make_project(f'{EXACT}[[guardrails]]\nmetric = "exact_match"\nmargin = 2.0\n'))


def test_what_determines_a_run_covers_what_decides_and_nothing_else(
    make_project: MakeProject,
) -> None:
    def parts(other: str = "") -> tuple[dict[str, object], ...]:
        project = make_project(EXACT + other)
        return project.conditions(), project.rules(), project.learning()

    conditions, rules, learning = parts()
    for other in (
        "[run]\nconcurrency = 3\n",
        "[improve]\nseed = 9\n",  # the seed is told apart elsewhere
        '[store]\nurl = "sqlite:///x.db"\n',
        '[ship]\ntest = "make"\n',
    ):
        assert parts(other) == (conditions, rules, learning)
    for other in ("[improve.budget]\nrollouts = 5\n", "[improve.options]\nbatch = 2\n"):
        assert parts(other)[:2] == (conditions, rules), "the baseline is not paid again"
        assert parts(other)[2] != learning
    for other in ("[prove]\nalpha = 0.01\n", "[prove]\nmin_gain = 0.1\n"):
        assert parts(other)[0] == conditions
        assert parts(other)[1] != rules
    for key in ("attempts", "timeout_s", "memory_mb"):
        assert (
            parts(f"[run]\n{key} = 300\n".replace("attempts = 300", "attempts = 3"))[0]
            != conditions
        )


def test_a_relative_store_path_is_relative_to_the_projects_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RATCHET_STORE", raising=False)
    (tmp_path / "ratchet.toml").write_text(
        '[agent]\nentry = "a:b"\n[store]\nurl = "sqlite:///data/own.db"\n'
    )
    project = Project.find(tmp_path)
    assert project.store_url == f"sqlite:///{tmp_path.resolve() / 'data' / 'own.db'}"


SHARED = '[store]\nurl = "postgresql://db/ratchet"\n'


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def project_at(folder: Path, text: str = SHARED) -> Project:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ratchet.toml").write_text('[agent]\nentry = "agent:answer"\n' + text)
    return Project.find(folder)


def test_a_project_on_a_shared_store_is_the_same_in_every_clone_and_after_a_move(
    tmp_path: Path,
) -> None:
    ours = project_at(tmp_path / "ours").root
    project_at(ours / "beside")
    git(ours, "init", "-q")
    git(ours, "add", ".")
    git(ours, "commit", "-qm", "The first")
    first = project_at(ours).identity()
    git(ours, "commit", "-qm", "Another", "--allow-empty")
    git(tmp_path, "clone", "-q", "ours", "cloned")
    ours.rename(tmp_path / "moved")
    assert project_at(tmp_path / "moved").identity() == first
    assert project_at(tmp_path / "cloned").identity() == first
    assert project_at(tmp_path / "moved" / "beside").identity() == f"{first}beside/"

    theirs = project_at(tmp_path / "theirs").root
    git(theirs, "init", "-q")
    git(theirs, "add", ".")
    git(theirs, "commit", "-qm", "The first of another repository")
    assert project_at(theirs).identity() != first


def test_the_name_of_a_project_is_its_identity_wherever_it_is(tmp_path: Path) -> None:
    named = '[project]\nname = "answers"\n' + SHARED
    assert project_at(tmp_path / "a", named).identity() == "name:answers"
    assert project_at(tmp_path / "b", named).identity() == "name:answers"


def test_a_project_without_git_needs_a_name_only_on_a_store_that_others_may_use(
    tmp_path: Path,
) -> None:
    assert project_at(tmp_path, "").identity() == ""
    with pytest.raises(ConfigError, match=r"(?s)is not in a git repository.*\[project\]\nname"):
        project_at(tmp_path).identity()


def test_a_shallow_clone_needs_a_name_on_a_shared_store(tmp_path: Path) -> None:
    ours = project_at(tmp_path / "ours").root
    git(ours, "init", "-q")
    git(ours, "add", ".")
    for number in range(2):
        git(ours, "commit", "-qm", str(number), "--allow-empty")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{ours}", "shallow")
    with pytest.raises(ConfigError, match="a shallow clone"):
        project_at(tmp_path / "shallow").identity()


@pytest.mark.parametrize(
    ("agent", "improve", "trains"),
    [
        ('command = "a"\nmodel = "local"', 'algorithm = "sft"', True),
        ('command = "a"\nmodel = "local"', "", False),  # which a quicker server serves
        ('command = "a"\nmodel = "local"', '[improve.options]\nalgorithms = ["grpo"]', True),
        ('command = "a"\nmodel = "local:weights"', "", True),
        ('command = "a"\nmodel = "local:weights"', 'algorithm = "apo"', False),
        (
            'command = "a"\nmodel = "local:weights"',
            '[improve.options]\nalgorithms = ["apo"]',
            False,
        ),
        ('command = "a"\nmodel = "local:weights.gguf"', "", False),
        ('entry = "bot:answer"\nmodel = "local:weights"', "", False),
        ('command = "a"', "", False),
    ],
)
def test_auto_trains_weights_that_are_a_folder_or_where_it_is_told_to(
    tmp_path: Path, agent: str, improve: str, trains: bool
) -> None:
    (tmp_path / "weights").mkdir()
    improve = improve if improve.startswith("[") else f"[improve]\n{improve}"
    (tmp_path / "ratchet.toml").write_text(f"[agent]\n{agent}\n\n{improve}\n")
    assert Project.find(tmp_path).trains_weights is trains


def test_an_agent_that_may_reach_more_is_another_agent(tmp_path: Path) -> None:
    """Its rollouts of before, in which a tool was denied, say nothing about it."""
    (tmp_path / "agent.sh").write_text("echo hi\n")

    def version(settings: str) -> str:
        (tmp_path / "ratchet.toml").write_text(settings)
        return Project.find(tmp_path).load_agent().source_version()

    command = '[agent]\ncommand = "sh agent.sh {input}"\n'
    hosts = f'{command}[agent.allow]\nhosts = ["api.tavily.com:443"]\n'
    nothing = f"{command}[agent.allow]\nhosts = []\n"
    assert version(command) == version(nothing) != version(hosts)
