"""Single settings of `ratchet.toml` are changed, and nothing beside them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from ratchet.autopilot.changeable import ABOUT, CHANGEABLE, SHOWN
from ratchet.autopilot.config import Config, read_config
from ratchet.autopilot.cycle.source_files import SourceFiles
from ratchet.autopilot.project_settings import change_setting, read_settings
from ratchet.types import ConfigError, Conflict, InputError

AGENT = '[agent]\nentry = "agent:answer"\n'
ROLLOUTS, SECONDS = "improve.budget.rollouts", "improve.budget.seconds"

FILES = {
    "nothing of it": AGENT,
    "no newline at the end": AGENT + "[prove]\nalpha = 0.01",
    "comments": f"# mine\n{AGENT}\n[improve.budget]  # of a run\n# most\n"
    "rollouts = 1_000 # enough\n\n# ours\n[prove]\nalpha = 0.01\n",
    "another table first": f"[improve]\nalgorithm = 'apo'\n\n{AGENT}",
    "dotted in its parent": f"[improve]\nbudget.rollouts = 70 # seventy\n\n{AGENT}",
    "dotted at the top": f"improve.budget.rollouts = 70\n{AGENT}",
    "in braces": f"[improve]\nbudget = {{ rollouts = 70 }} # of a run\nseed = 3\n{AGENT}",
    "empty braces": f"[improve]\nbudget = {{}}\n{AGENT}",
    "an empty table": f"[improve.budget]\n\n{AGENT}",
    "quoted and spaced": f'[ "improve" . budget ]\n\t"rollouts"\t=\t70\n{AGENT}',
    "lines of Windows": f"{AGENT}\n[improve.budget]\nrollouts = 70\n\n[prove]\n".replace(
        "\n", "\r\n"
    ),
    "a byte order mark": f"\ufeff# über\n{AGENT}[improve.budget]\nrollouts = 70\n",
    "a list of tables after it": f"[improve.budget]\nrollouts = 70\n{AGENT}\n[[guardrails]]\n"
    'metric = "errors"\nmargin = 0.1\n',
}


def project(folder: Path, text: str) -> Path:
    """A project with this configuration."""
    (folder / "ratchet.toml").write_bytes(text.encode())
    return folder


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_a_key_is_set_and_the_change_taken_back_byte_by_byte(tmp_path: Path, text: str) -> None:
    root = project(tmp_path, text)
    for key, value in ((ROLLOUTS, "55"), (SECONDS, "9.50")):
        before = (root / "ratchet.toml").read_bytes()
        change = change_setting(root, key, value)
        after = (root / "ratchet.toml").read_bytes()
        budget = read_config(root / "ratchet.toml").improve.budget
        assert getattr(budget, key.rpartition(".")[2]) == float(value)
        # Every other line is there as it was, comments included.
        gone = [line[2:] for line in change.diff if line.startswith("-")]
        assert len(gone) == (change.before is not None or b"budget = {" in before)
        kept = [line for line in before.decode().splitlines() if line and line not in gone]
        assert [line for line in after.decode().splitlines() if line in kept] == kept
        back = change_setting(root, key, change.before, digest=change.digest)
        again = (root / "ratchet.toml").read_bytes()
        assert again.removesuffix(b"\n") == before.removesuffix(b"\n")
        assert len(again) >= len(before)
        assert back.before == value
        change_setting(root, key, value)


def test_what_is_said_first_is_what_happens_and_nothing_happens_before(tmp_path: Path) -> None:
    root = project(tmp_path, FILES["comments"])
    before = (root / "ratchet.toml").read_bytes()
    shown = change_setting(root, ROLLOUTS, "55", write=False)
    assert (root / "ratchet.toml").read_bytes() == before
    assert os.listdir(root) == ["ratchet.toml"]
    assert shown.diff == ("- rollouts = 1_000 # enough", "+ rollouts = 55 # enough")
    assert (shown.before, shown.after, shown.line, shown.written) == ("1_000", "55", 7, False)
    done = change_setting(root, ROLLOUTS, "55")
    assert (done.diff, done.digest, done.written) == (shown.diff, shown.digest, True)
    assert read_settings(root / "ratchet.toml").digest == done.digest


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        (ROLLOUTS, "0", "improve.budget.rollouts = 0: input should be greater than or equal to 1"),
        (ROLLOUTS, "many", "input should be a valid integer"),
        (ROLLOUTS, "5\n[server]\nrequire_key = false", "input should be a valid integer"),
        (ROLLOUTS, "5 # of them", "input should be a valid integer"),
        (ROLLOUTS, "{}", "input should be a valid integer"),
        (SECONDS, "inf", "input should be a valid number"),
        ("autopilot.mode", "always", "input should be 'propose', 'canary' or 'auto'"),
        ("autopilot.hours", "9 to 5", 'should be like "09:00-18:00"'),
        ("shadow.min_pairs", "3000", "min_pairs exceeds max_pairs"),
        ("redaction.enabled", "1", "input should be a valid boolean"),
    ],
)
def test_a_value_that_the_configuration_refuses_gets_its_sentence_and_the_file_stays(
    tmp_path: Path, key: str, value: str, sentence: str
) -> None:
    root = project(tmp_path, FILES["comments"])
    with pytest.raises(ConfigError) as refused:
        change_setting(root, key, value)
    assert sentence in str(refused.value)
    assert (root / "ratchet.toml").read_text() == FILES["comments"]
    assert [each for each in os.listdir(root) if each.startswith(".ratchet.toml")] == []


@pytest.mark.parametrize(
    "key",
    [
        *(
            "agent.entry",
            "agent.command",
            "agent.path",
            "ship.test",
            "ship.sandbox",
            "ship.network",
        ),
        *("coach.base_url", "coach.key_env", "store.url", "server.host", "server.require_key"),
        *("sandbox.level", "sandbox.unsafe", "improve.algorithm", "improve.options", "run.server"),
        *("autopilot.approvers", "autopilot.paths", "autopilot.resources", "autopilot.evaluator"),
        *("prove.alpha", "canary.harm_alpha", "retention.audit_days", "redaction.rules"),
        *("redaction.allow", "redaction.patterns", "notify.url_env", "live.mirror", "tasks.file"),
    ],
)
def test_what_runs_code_or_says_who_may_do_what_is_never_changed(tmp_path: Path, key: str) -> None:
    root = project(tmp_path, AGENT)
    with pytest.raises(ConfigError, match="cannot be changed here"):
        change_setting(root, key, "true")
    assert (root / "ratchet.toml").read_text() == AGENT


def test_only_numbers_switches_and_choices_are_open(tmp_path: Path) -> None:
    root = project(tmp_path, AGENT)
    kinds = {
        f"{section.name}.{each.name}": each.kind
        for section in read_settings(root / "ratchet.toml").sections
        for each in section.settings
        if not each.fixed
    }
    assert set(kinds) == {f"{name}.{key}" for name, keys in CHANGEABLE.items() for key in keys}
    # Two texts, which the schema checks: hours of a day, and a time zone of the machine.
    texts = {key for key, kind in kinds.items() if kind not in ("number", "boolean", "choice")}
    assert texts == {"autopilot.hours", "autopilot.time_zone"}


def test_every_shown_key_has_a_sentence_and_no_sentence_is_left_over() -> None:
    for section in SHOWN:
        model: Any = Config
        for part in section.split("."):
            model = model.model_fields[part].annotation
        assert set(ABOUT[section]) == set(model.model_fields)
        assert all(sentence.endswith(".") for sentence in ABOUT[section].values())


def test_an_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    root = project(tmp_path, AGENT)
    with pytest.raises(InputError, match=r"Did you mean improve\.budget\.rollouts"):
        change_setting(root, "improve.budget.rollout", "5")
    with pytest.raises(InputError, match="says so already: rollouts = 70"):
        change_setting(project(tmp_path, FILES["dotted in its parent"]), ROLLOUTS, "70")
    with pytest.raises(InputError, match="does not set seconds"):
        change_setting(root, SECONDS, None)


def test_a_change_decided_on_another_version_of_the_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path, AGENT)
    seen = read_settings(root / "ratchet.toml").digest
    project(tmp_path, AGENT + "# edited\n")
    with pytest.raises(Conflict, match="has changed since it was read"):
        change_setting(root, ROLLOUTS, "55", digest=seen)
    # An editor that saves between our reading and our writing wins, too.
    fsync = os.fsync

    def saved_meanwhile(handle: int) -> None:
        fsync(handle)
        project(tmp_path, AGENT + "# edited again\n")

    monkeypatch.setattr("ratchet.autopilot.project_settings.os.fsync", saved_meanwhile)
    with pytest.raises(Conflict, match="was changed meanwhile"):
        change_setting(root, ROLLOUTS, "55")
    assert (root / "ratchet.toml").read_text() == AGENT + "# edited again\n"
    assert sorted(os.listdir(root)) == [".ratchet", "ratchet.toml"]


@pytest.mark.parametrize("name", ["comments", "dotted in its parent"])
def test_a_line_with_a_comment_is_commented_out_and_comes_back_byte_by_byte(
    tmp_path: Path, name: str
) -> None:
    root = project(tmp_path, FILES[name])
    path = root / "ratchet.toml"
    change = change_setting(root, ROLLOUTS, None)
    assert "rollouts" not in read_config(path).improve.budget.model_fields_set
    (old, new) = (line[2:] for line in change.diff)
    assert new == f"# {old}"
    without = path.read_text()
    assert without == FILES[name].replace(old, new)
    other = change_setting(root, ROLLOUTS, "33")
    assert new in path.read_text(), "another value gets a line of its own"
    change_setting(root, ROLLOUTS, other.before)
    assert path.read_text() == without
    change_setting(root, ROLLOUTS, change.before)
    assert path.read_text() == FILES[name]


@pytest.mark.parametrize(
    "text",
    [
        f"{AGENT}\n[improve.budget]\n# rollouts = 70\n",
        f"{AGENT}\n[prove]\n# rollouts = 70 # of another table\n\n[improve.budget]\n",
        f"{AGENT}\n# rollouts = 70 # of another table\n",
        f"{AGENT}\n[improve.budget]\n# about 70 rollouts # of ours\n#rollouts = 70 # mine\n",
    ],
)
def test_comments_that_no_setting_left_behind_stay(tmp_path: Path, text: str) -> None:
    root = project(tmp_path, text)
    change_setting(root, ROLLOUTS, "70")
    after = (root / "ratchet.toml").read_text()
    assert [line for line in text.splitlines() if line not in after.splitlines()] == []


def test_a_file_that_is_a_link_stays_one_with_its_mode(tmp_path: Path) -> None:
    kept = tmp_path / "kept.toml"
    kept.write_text(AGENT)
    kept.chmod(0o640)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "ratchet.toml").symlink_to(kept)
    change_setting(tmp_path / "project", ROLLOUTS, "55")
    assert (tmp_path / "project" / "ratchet.toml").is_symlink()
    assert "rollouts = 55" in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640


def test_a_file_that_cannot_be_written_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path, AGENT)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "cannot be written" in read_settings(root / "ratchet.toml").read_only

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ratchet.autopilot.project_settings.os.fsync", full)
    with pytest.raises(ConfigError, match="cannot be written: No space left"):
        change_setting(root, ROLLOUTS, "55")
    assert (root / "ratchet.toml").read_text() == AGENT
    assert sorted(os.listdir(root)) == [".ratchet", "ratchet.toml"]


def test_a_running_autopilot_notices_a_change(tmp_path: Path) -> None:
    root = project(tmp_path, AGENT)
    files = SourceFiles(root)
    assert not files.changed()
    change = change_setting(root, "autopilot.freeze", "true")
    assert files.changed()
    assert "starts anew with it by itself" in change.follows
