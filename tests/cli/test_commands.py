"""The other commands, for people and for machines."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from ratchet.cli.app import COMMANDS, app_for, run
from ratchet.store import Store
from ratchet.types import Run
from tests.cli.conftest import AGENT, CONFIG, INLINE, MakeProject, Project


def test_run_shows_one_rollout_with_its_answer_and_trace(make_project: MakeProject) -> None:
    project = make_project()
    done = project.ratchet("run", "--task", "t3")
    assert done.returncode == 0, done.stderr
    assert "succeeded" in done.stdout
    assert "0.4" in done.stdout
    assert "look" in done.stdout
    found: Any = project.json("run", "--split", "val", "--limit", "3")
    assert len(found["rollouts"]) == 3
    assert all(r["scores"]["closeness"]["value"] == 0.4 for r in found["rollouts"])


def test_run_takes_json_as_an_object_and_text_as_text(make_project: MakeProject) -> None:
    agent = """
import ratchet


@ratchet.agent
def answer(question, style="plain"):
    return f"{question}:{style}"
"""
    project = make_project(
        agent=agent, config='[agent]\nentry = "agent:answer"\n[[evaluators]]\nuse = "exact_match"\n'
    )
    one: Any = project.json("run", "how?")
    assert one["rollouts"][0]["output"] == "how?:plain"
    other: Any = project.json("run", '{"question": "how?", "style": "short"}')
    assert other["rollouts"][0]["output"] == "how?:short"
    assert project.ratchet("run", "{broken").returncode == 2


def test_run_of_a_failing_agent_says_what_it_raised_and_exits_with_3(
    make_project: MakeProject,
) -> None:
    agent = """
def answer(number):
    raise KeyError("no such room")
"""
    project = make_project(
        agent=agent, config='[agent]\nentry = "agent:answer"\n[[evaluators]]\nuse = "exact_match"\n'
    )
    done = project.ratchet("run", "5")
    assert done.returncode == 3
    assert "no such room" in done.stderr
    assert "agent.py:3" in done.stderr
    assert "Traceback" not in done.stderr


def test_eval_gives_means_with_intervals_and_runs_nothing_twice(make_project: MakeProject) -> None:
    project = make_project()
    first: Any = project.json("eval", "--split", "val")
    row = first["candidates"][0]
    closeness = next(e for e in row["evaluators"] if e["evaluator"] == "closeness")
    assert closeness["mean"] == pytest.approx(0.4)
    assert closeness["errors"] == 0
    before: Any = project.json("status")["summary"]
    assert project.json("eval", "--split", "val") == first
    after: Any = project.json("status")["summary"]
    assert before["rollouts"] == after["rollouts"]
    project.json("eval", "--split", "val", "--fresh")
    fresh: Any = project.json("status")["summary"]
    assert fresh["rollouts"]["succeeded"] == 2 * before["rollouts"]["succeeded"]


def test_answers_that_an_evaluator_raises_on_count_as_0_and_are_told(
    make_project: MakeProject,
) -> None:
    agent = """
import ratchet


@ratchet.agent
def answer(number):
    return number


@ratchet.evaluator
def picky(output):
    if output % 2:
        raise ValueError("odd numbers are beyond me")
    return 1.0
"""
    config = CONFIG.replace("closeness", "picky") + INLINE
    done = make_project(agent=agent, config=config).ratchet("eval", "--split", "all")
    assert done.returncode == 0, done.stderr
    assert "0.5000" in done.stdout
    assert "odd numbers are beyond me" in done.stdout
    assert "120 times, which counts as 0" in done.stdout


def test_status_says_where_things_stand_and_what_is_next(improved: Project) -> None:
    done = improved.ratchet("status")
    assert done.returncode == 0
    assert "shipped" in done.stdout
    assert "ratchet rollback" in done.stdout


def test_status_without_tasks_says_how_to_get_them(make_project: MakeProject) -> None:
    project = make_project(tasks=0)
    (project.root / "tasks.jsonl").unlink()
    said = " ".join(project.ratchet("status").stdout.split())
    assert "There are no tasks: write tasks.jsonl" in said
    assert "ratchet datasets capture NAME" in said


def test_show_finds_anything_by_the_start_of_its_id(
    improved: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    status: Any = improved.json("status")["newest_run"]
    release: Any = improved.json("releases")["releases"][0]
    ran: Any = improved.json("run", "--split", "val", "--limit", "1")
    rollout = ran["rollouts"][0]["id"]
    wanted = {
        status["run"]: "run",
        status["candidate_id"]: "candidate",
        release["experiment_id"]: "experiment",
        release["id"]: "release",
        rollout: "rollout",
    }
    capsys.readouterr()
    for identity, kind in wanted.items():
        where = ["--project", str(improved.root)]
        assert run(["show", identity[:10], "--json", *where]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["kind"] == kind
        assert run(["show", identity[:10], *where]) == 0
        assert identity[:8] in capsys.readouterr().out
    assert [span["name"] for span in shown["spans"]] == ["answer", "look"]


def test_diff_is_a_patch_from_the_source_and_a_comparison_between_candidates(
    improved: Project,
) -> None:
    patch = improved.ratchet("diff").stdout
    assert '-KNOBS = ratchet.params("knobs", aim=ratchet.Float(0.0, 0.0, 1.0))' in patch
    best = str(improved.json("status")["newest_run"]["candidate_id"])  # type: ignore[index]
    base = str(improved.json("status")["newest_run"]["baseline_id"])  # type: ignore[index]
    between = improved.json("diff", base[:12], best[:12])
    assert between["changed"] == ["knobs"]
    assert "-aim = 0.0" in str(between["diff"])
    alone = improved.ratchet("diff", "--patch").stdout
    assert alone.startswith("--- ")
    assert "identical" in improved.ratchet("diff", best, best).stdout


def test_what_an_evaluator_prints_stays_out_of_json(make_project: MakeProject) -> None:
    agent = AGENT.replace("    return output\n", '    print("scored")\n    return output\n')
    project = make_project(agent=agent, config=CONFIG + INLINE)
    done = project.ratchet("eval", "--limit", "2", "--json")
    assert isinstance(json.loads(done.stdout), dict), done.stdout
    assert "scored" in done.stderr


def test_eval_shows_the_evaluators_of_today(make_project: MakeProject) -> None:
    project = make_project(config=CONFIG + INLINE)
    project.json("eval", "--limit", "2")
    renamed = CONFIG.replace("vouched = true", 'vouched = true\nname = "near"')
    project.write("ratchet.toml", renamed + INLINE)
    (found,) = project.json("eval", "--limit", "2")["candidates"]  # type: ignore[misc]
    names = [entry["evaluator"] for entry in found["evaluators"]]  # type: ignore[index]
    assert names == ["near", "latency", "cost"]


def test_json_output_is_one_object_and_nothing_else(improved: Project) -> None:
    for arguments in (["status"], ["releases"], ["verify"], ["eval"], ["diff"], ["improve"]):
        done = improved.ratchet(*arguments, "--json")
        assert isinstance(json.loads(done.stdout), dict), arguments


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_says_what_it_does(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--help"]) == 0
    assert f"Usage: ratchet {command}" in capsys.readouterr().out


def commands_of(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A command and those below it, each with its path."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands_of(below, (*path, name))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_section_in_brackets_is_not_taken_for_markup_of_the_help(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole: Any = typer.main.get_command(app_for([command]))
    for path, each in commands_of(whole.commands[command], (command,)):
        texts = [each.help or "", *(getattr(param, "help", None) or "" for param in each.params)]
        written = {name for text in texts for name in re.findall(r"\[\[?[a-z_.]+\]\]?", text)}
        if written:
            capsys.readouterr()
            assert run([*path, "--help"]) == 0
            shown = capsys.readouterr().out
            assert {name for name in written if name not in shown} == set(), path


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_lists_a_command_with_the_first_words_of_its_own(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--help"]) == 0
    listed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    group: Any = typer.main.get_command(app_for([command]))
    first = " ".join(group.commands[command].help.partition("\n\n")[0].split())
    assert COMMANDS[command].summary == first
    assert f"{command} {first}" in listed


def test_the_help_imports_no_command_and_status_no_model_library(improved: Project) -> None:
    code = (
        "import sys; from ratchet.cli import app\n"
        "try: app.run(sys.argv[1:])\n"
        "finally: print(*sorted(sys.modules))"
    )

    def loaded(*arguments: str) -> set[str]:
        ran = [sys.executable, "-c", code, *arguments]
        options: Any = {"cwd": improved.root, "capture_output": True, "text": True}
        done = subprocess.run(ran, timeout=120, check=True, **options)
        return set(done.stdout.split())

    of_help = loaded("--help")
    assert {"ratchet.cli.app", "typer"} <= of_help
    assert not {"ratchet.cli.status", "ratchet.store", "sqlalchemy", "pydantic"} & of_help
    of_status = loaded("status")
    assert {"ratchet.cli.status", "sqlalchemy"} <= of_status
    heavy = {
        "ratchet.learn.lab",
        "ratchet.llm",
        "ratchet.client.sync_client",
        "ratchet.run.worker_pool",
    }
    assert not (heavy | {"optuna", "openai", "httpx2", "matplotlib"}) & of_status


def test_prune_deletes_what_is_older_than_the_configuration_says_and_not_needed(
    make_project: MakeProject,
) -> None:
    project = make_project(config=CONFIG + "\n[retention]\njournal_days = 1\n")
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        for run_id, stage in (("over", "no_gain"), ("open", "learn")):
            store.runs.put(
                Run(
                    id=run_id,
                    agent="agent:answer",
                    seed=0,
                    stage=stage,  # type: ignore[arg-type]
                    created_at=1.0,
                    updated_at=1.0,
                )
            )
            store.journal.append(run_id, "coach/1", "reply", 1.0)
        store.journal.append("open", "coach/2", "newest", 1.0)
    done = project.ratchet("prune")
    assert (done.returncode, done.stdout) == (0, "journal: 1 row deleted\n"), done.stderr
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        assert store.journal.read("over") == []
        assert len(store.journal.read("open")) == 2
    assert "Nothing was deleted" in project.ratchet("prune").stdout
