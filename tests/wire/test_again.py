"""A second wiring keeps edits and offers what is new; doctor says what no longer fits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.cli.app import run
from ratchet.types import InputError
from ratchet.wire import RepositoryLook
from ratchet.wire.changes import Changes, FileChange, StepChanges
from ratchet.wire.choices import Choices
from ratchet.wire.former import Again, again, commit, dry_run, undo
from ratchet.wire.former.doctor import diagnose
from ratchet.wire.former.plan import WiringStep
from tests.wire.wired import (
    AGENT,
    STEPS,
    choices_of,
    git,
    repository,
    snapshot,
    tree_hash,
    wired,
)

NEW = """

NEWS = 'You are a careful clerk who answers every letter of the public library with care.'


def more(question):
    messages = [{"role": "user", "content": question}]
    return anthropic.Anthropic().messages.create(model="m", system=NEWS, messages=messages)
"""


def _choose(found: RepositoryLook, project: str) -> Choices:
    return choices_of(found, project=project)


def _again(root: Path, steps: tuple[WiringStep, ...] = STEPS) -> Again:
    return again(root, _choose, steps)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return wired(tmp_path / "made")


def _edit(root: Path, path: str, old: str, new: str) -> None:
    text = (root / path).read_text()
    assert old in text
    (root / path).write_text(text.replace(old, new))


def test_a_second_run_is_empty_and_writes_nothing(root: Path) -> None:
    before = tree_hash(root)
    found = _again(root)
    assert found.plan.changes.files == ()
    assert dry_run(root, found.plan) == ""
    assert (found.kept, found.misfits) == ((), ())
    assert tree_hash(root) == before
    with pytest.raises(InputError, match="nothing to wire"):
        commit(root, found.plan)


def test_edits_of_the_user_are_kept(root: Path) -> None:
    _edit(root, "agent.py", 'prompt("tone"', 'prompt("voice"')
    _edit(root, "agent.py", "@ratchet.tool(side_effects=True)\n", "")
    _edit(root, "ratchet.toml", '"exact_match"', '"contains"')
    (root / "tasks.jsonl").write_text('{"input": "mine"}\n')
    (root / "requirements.txt").write_text("agent-ratchet==0.1\nanthropic\n")
    (root / ".gitignore").unlink()
    (root / "ratchet_agent.py").unlink()
    before = snapshot(root)
    found = _again(root)
    assert found.plan.changes.files == ()
    assert snapshot(root) == before
    assert {"agent.py", "ratchet.toml", "tasks.jsonl"} <= {one.place.path for one in found.kept}


def test_a_new_prompt_is_offered_and_taken_back_with_the_rest(root: Path) -> None:
    _edit(root, "agent.py", 'prompt("tone"', 'prompt("voice"')
    with (root / "agent.py").open("a") as file:
        file.write(NEW)
    git(root, "commit", "-aqm", "more")
    edited = (root / "agent.py").read_text()
    found = _again(root)
    assert [one.path for one in found.plan.changes.files] == ["agent.py", ".ratchet-init.json"]
    commit(root, found.plan, "ratchet/init-2")
    wanted = edited.replace("NEWS = '", 'NEWS = str(ratchet.prompt("news", \'')
    wanted = wanted.replace("library with care.'", "library with care.'))")
    assert (root / "agent.py").read_text() == wanted
    assert _again(root).plan.changes.files == ()
    assert diagnose(root).misfits == ()
    _edit(root, "agent.py", 'prompt("voice"', 'prompt("tone"')
    git(root, "commit", "-aqm", "back")
    undo(root)
    assert (root / "agent.py").read_text() == AGENT + NEW


def test_a_name_that_is_taken_is_not_given_to_a_new_prompt(root: Path) -> None:
    (root / "other.py").write_text(AGENT.replace("Explain each", "Justify each"))
    seen: list[str] = []

    def remember(root: Path, found: RepositoryLook, choices: Choices) -> StepChanges:
        seen.extend(one.name for one in choices.prompts)
        return StepChanges()

    _again(root, (remember,))
    assert len(seen) == len(set(seen)) == 6
    assert {"rules", "tone", "ask"} < set(seen)


def _starting_with(version: str) -> WiringStep:
    def step(root: Path, found: RepositoryLook, choices: Choices) -> StepChanges:
        files = (FileChange("ratchet_agent.py", "What a rollout runs.", content=version),)
        tables = {"agent": {"entry": "ratchet_agent:run"}, "run": {"attempts": 3}}
        return StepChanges(Changes(files), tables if "2" in version else {"agent": tables["agent"]})

    return step


def test_a_created_file_of_a_newer_ratchet_replaces_one_that_nobody_edited(root: Path) -> None:
    newer = (STEPS[0], _starting_with("run = 2\n"))
    found = _again(root, newer)
    assert {one.path for one in found.plan.changes.files} == {
        *("ratchet_agent.py", "ratchet.toml", ".ratchet-init.json")
    }
    (root / "ratchet_agent.py").write_text("run = 'mine'\n")
    _edit(root, "ratchet.toml", "# The score", "# My score")
    found = _again(root, newer)
    assert {one.path for one in found.plan.changes.files} == {"ratchet.toml", ".ratchet-init.json"}
    shown = dry_run(root, found.plan)
    assert "+[run]" in shown
    assert "\n-" not in shown.replace("\n---", "").split(".ratchet-init.json")[0]


def test_a_folder_that_was_not_wired_is_told_so(tmp_path: Path) -> None:
    made = repository(tmp_path / "made")
    for function in (_again, diagnose, undo):
        with pytest.raises(InputError, match="was not wired"):
            function(made)


# --- doctor


def test_a_wiring_that_fits_has_no_misfits(root: Path) -> None:
    before = tree_hash(root)
    found = diagnose(root)
    assert (found.misfits, found.prompts, found.project) == ((), 3, ".")
    assert tree_hash(root) == before


def _rename_entry(root: Path) -> None:
    _edit(root, "agent.py", "def ask", "def reply")


def _unused_prompt(root: Path) -> None:
    _edit(root, "agent.py", "system=RULES + ", "system=")


def _remove_prompt(root: Path) -> None:
    text = (root / "agent.py").read_text()
    start = text.index("RULES = ")
    _edit(root, "agent.py", text[start : text.index("TONE = ")], "RULES = ''\n")


def _unmark(root: Path) -> None:
    _edit(root, "agent.py", "@ratchet.tool(side_effects=True)\n", "")


def _forget_package(root: Path) -> None:
    (root / "requirements.txt").write_text("anthropic\n")


def _lose_tasks(root: Path) -> None:
    (root / "tasks.jsonl").unlink()


def _rename_run(root: Path) -> None:
    _edit(root, "ratchet_agent.py", "def run", "def other")


def _move_adapter(root: Path) -> None:
    (root / "ratchet_agent.py").rename(root / "adapter.py")


def _unknown_evaluator(root: Path) -> None:
    _edit(root, "ratchet.toml", 'use = "exact_match"', 'use = "exactly"')


def _own_evaluator(root: Path) -> None:
    _edit(root, "ratchet.toml", 'use = "exact_match"', 'use = "agent:nothing"')


def _lose_prompt_file(root: Path) -> None:
    with (root / "ratchet.toml").open("a") as file:
        file.write('\n[[prompt_files]]\npath = "config/agents.yaml"\n')


def _lose_field(root: Path) -> None:
    (root / "agents.yaml").write_text("clerk:\n  goal: g\n")
    with (root / "ratchet.toml").open("a") as file:
        file.write('\n[[prompt_files]]\npath = "agents.yaml"\nfields = ["clerk.goal", "a.b"]\n')


def _break_settings(root: Path) -> None:
    (root / "ratchet.toml").write_text("[agent\n")


@pytest.mark.parametrize(
    ("spoil", "place", "sentence"),
    [
        (_rename_entry, "agent.py", "The entry ask is not there"),
        (_unused_prompt, "agent.py:7", "The prompt rules reaches no model call"),
        (_remove_prompt, "agent.py", "The prompt rules reaches no model call"),
        (_unmark, "agent.py:20", "The tool write_letter has side effects"),
        (_forget_package, "requirements.txt", "does not name Ratchet's package"),
        (_lose_tasks, "ratchet.toml:10", "The task file tasks.jsonl is not there"),
        (_rename_run, "ratchet.toml:5", "ratchet_agent.py defines no run"),
        (_move_adapter, "ratchet.toml:5", "there is no module ratchet_agent"),
        (_unknown_evaluator, "ratchet.toml:14", "The evaluator exactly is not there"),
        (_own_evaluator, "ratchet.toml:14", "agent.py defines no nothing"),
        (_lose_prompt_file, "ratchet.toml:21", "config/agents.yaml is not there"),
        (_lose_field, "ratchet.toml:22", "agents.yaml has no field a.b"),
        (_break_settings, "ratchet.toml", "cannot be read"),
    ],
)
def test_what_no_longer_fits_is_named_with_its_line_and_one_step(
    spoil: Callable[[Path], None], place: str, sentence: str, root: Path
) -> None:
    spoil(root)
    found = [one for one in diagnose(root).misfits if sentence in one.what]
    assert [str(one.place) for one in found] == [place]
    assert found[0].next_step


def test_a_moved_prompt_and_a_renamed_file_still_fit(root: Path) -> None:
    (root / "src").mkdir()
    git(root, "mv", "agent.py", "src/helper.py")
    _edit(root, "ratchet_agent.py", "from agent", "from src.helper")
    assert [one.what for one in diagnose(root).misfits] == []


def test_the_command_exits_with_1_when_something_does_not_fit(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", str(root)]) == 0
    assert "still fits" in capsys.readouterr().out
    _unmark(root)
    assert run(["doctor", str(root), "--json"]) == 1
    printed = capsys.readouterr()
    [misfit] = json.loads(printed.out)["misfits"]
    assert misfit["place"] == {"path": "agent.py", "line": 20}
    assert "1 problem" in printed.err
    assert run(["doctor", str(root)]) == 1
    assert "agent.py:20" in capsys.readouterr().out


def test_undo_of_the_command_names_what_it_kept_and_removes_it_when_forced(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _edit(root, "ratchet.toml", "# The score", "# My score")
    git(root, "commit", "-aqm", "mine")
    assert run(["init", "--undo", str(root)]) == 0
    assert "Kept: ratchet.toml" in capsys.readouterr().out
    assert (root / "ratchet.toml").exists()
    assert run(["init", "--undo", str(root), "--force"]) == 5
    assert "ratchet/undo-init exists" in capsys.readouterr().err
    assert run(["init", "--undo", str(root), "--force", "--branch", "undone"]) == 0
    assert not (root / "ratchet.toml").exists()
    assert not (root / ".ratchet-init.json").exists()


def test_settings_alone_are_checked_too(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "requirements.txt").write_text("agent-ratchet\nanthropic\n")
    (tmp_path / "ratchet.toml").write_text('[agent]\nentry = "agent:missing"\n')
    found = [str(one.place) for one in diagnose(tmp_path).misfits]
    line = AGENT[: AGENT.index("def write_letter")].count("\n") + 1
    assert found == [f"agent.py:{line}", "ratchet.toml:2"]
