"""The files beside the code: each manifest in its own form, settings that Ratchet reads itself."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.autopilot.config import read_config
from ratchet.types import InputError
from ratchet.wire import look
from ratchet.wire.changes import apply_pieces
from ratchet.wire.former.all_project_files import project_files
from ratchet.wire.former.dependency import dependency
from ratchet.wire.former.ignored import ignored
from ratchet.wire.former.requirement import requirement
from ratchet.wire.former.workflow_file import workflow_file
from ratchet.wire.project_files.config_file import config_file
from ratchet.wire.project_files.toml_text import toml_text
from tests.wire.wired import AGENT, choices_of

OURS = requirement()
OLD = f"{OURS}; python_version >= '3.11'"
VERSION = OURS.removeprefix("agent-ratchet")


def _write(root: Path, files: dict[str, str]) -> Path:
    for path, text in {"agent.py": AGENT, **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode())
    return root


def _added(root: Path, project: str = ".") -> tuple[dict[str, str], list[str]]:
    """New texts of the changed manifests, and what is left alone."""
    made = dependency(root, look(root), project)
    texts = {
        one.path: apply_pieces((root / one.path).read_bytes(), one.pieces).decode()
        for one in made.files
    }
    return texts, [f"{one.place} {one.why}" for one in made.left_alone]


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("requirements.txt", "anthropic\n", f"anthropic\n{OURS}\n"),
        ("requirements.txt", "# all\nanthropic", f"# all\nanthropic\n{OURS}\n"),
        ("requirements.txt", "anthropic\r\n", f"anthropic\r\n{OURS}\r\n"),
        ("requirements/base.txt", "anthropic\n", f"anthropic\n{OURS}\n"),
        (
            "pyproject.toml",
            '[project]\nname = "a"\ndependencies = [\n    "anthropic", # why\n    "httpx"\n]\n',
            f'[project]\nname = "a"\ndependencies = [\n    "{OURS}",\n    "anthropic", # why\n'
            '    "httpx"\n]\n',
        ),
        (
            "pyproject.toml",
            "[project]\ndependencies = ['anthropic']\nrequires-python = '>=3.11'\n",
            f"[project]\ndependencies = ['{OURS}', 'anthropic']\nrequires-python = '>=3.11'\n",
        ),
        (
            "pyproject.toml",
            '[project]\nname = "é 🚚"\nrequires-python = ">=3.9"\ndependencies = ["anthropic"]\n',
            '[project]\nname = "é 🚚"\nrequires-python = ">=3.9"\n'
            f'dependencies = ["{OLD}", "anthropic"]\n',
        ),
        (
            "pyproject.toml",
            '[project]\r\nname = "a"\r\ndependencies = []\r\n',
            f'[project]\r\nname = "a"\r\ndependencies = ["{OURS}"]\r\n',
        ),
        (
            "pyproject.toml",
            '[project]\nname = "a"\n\n[tool.ruff]\n',
            f'[project]\nname = "a"\ndependencies = ["{OURS}"]\n\n[tool.ruff]\n',
        ),
        (
            "pyproject.toml",
            '[tool.poetry.dependencies]\npython = "^3.12"\nanthropic = "*"\n',
            f'[tool.poetry.dependencies]\npython = "^3.12"\nagent-ratchet = "{VERSION}"\n'
            'anthropic = "*"\n',
        ),
        (
            "pyproject.toml",
            '[tool.poetry.dependencies]\npython = "^3.10"\n',
            f'[tool.poetry.dependencies]\npython = "^3.10"\n'
            f'agent-ratchet = {{ version = "{VERSION}", python = ">=3.11" }}\n',
        ),
        (
            "Pipfile",
            '[packages]\nanthropic = "*"\n',
            f'[packages]\nagent-ratchet = "{VERSION}"\nanthropic = "*"\n',
        ),
        (
            "environment.yml",
            "name: a\ndependencies:\n  - python=3.12\n  - pip\n  - pip:\n      - anthropic  # x\n",
            "name: a\ndependencies:\n  - python=3.12\n  - pip\n  - pip:\n"
            f"      - {OURS}\n      - anthropic  # x\n",
        ),
        (
            "environment.yml",
            "dependencies:\n- python=3.12\n- anthropic",
            f"dependencies:\n- python=3.12\n- anthropic\n- pip\n- pip:\n    - {OURS}\n",
        ),
        (
            "setup.cfg",
            "[options]\ninstall_requires =\n    anthropic\n    httpx\n",
            f"[options]\ninstall_requires =\n    {OURS}\n    anthropic\n    httpx\n",
        ),
        (
            "setup.py",
            "from setuptools import setup\nsetup(\n    install_requires=[\n        'anthropic',\n"
            "    ],\n)\n",
            "from setuptools import setup\nsetup(\n    install_requires=[\n"
            f"        \"{OURS}\",\n        'anthropic',\n    ],\n)\n",
        ),
    ],
)
def test_the_requirement_is_added_in_the_manifests_own_form(
    path: str, before: str, after: str, tmp_path: Path
) -> None:
    root = _write(tmp_path, {path: before})
    assert _added(root)[0] == {path: after}
    (root / path).write_bytes(after.encode())
    assert _added(root) == ({}, [])


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "No manifest"),
        ({"requirements.txt": "# autogenerated by pip-compile\nanthropic==1\n"}, "compiled"),
        ({"requirements.txt": "anthropic==1 --hash=sha256:00\n"}, "compiled"),
        ({"setup.py": "from s import setup\nsetup(install_requires=read())\n"}, "computes"),
        ({"setup.py": "setup(\n"}, "cannot be read"),
        ({"pyproject.toml": "[project\n"}, "cannot be read"),
        (
            {"pyproject.toml": '[project]\nrequires-python = ">=3.8,<3.11"\ndependencies = []\n'},
            "Python 3.11",
        ),
        ({"environment.yml": "dependencies: [\n"}, "cannot be read"),
        ({"environment.yml": "dependencies:\n- python=3.9\n- anthropic\n"}, "Python 3.11"),
    ],
)
def test_a_manifest_that_cannot_be_edited_is_left_with_the_line_to_add(
    files: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    texts, left = _added(_write(tmp_path, files))
    assert texts == {}
    assert len(left) == 1
    assert sentence in left[0]
    assert "agent-ratchet" in left[0]


def test_a_requirements_file_that_is_not_text_is_left(tmp_path: Path) -> None:
    root = _write(tmp_path, {})
    (root / "requirements.txt").write_bytes("anthropic\n".encode("utf-16"))
    assert "cannot be read" in _added(root)[1][0]


def test_of_several_manifests_the_one_of_the_framework_is_taken(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": '[project]\nname = "a"\ndependencies = ["httpx"]\n',
        "requirements.txt": "anthropic==1\n",
        "requirements-dev.txt": "anthropic\npytest\n",
        "bot/requirements.txt": "httpx\n",
    }
    root = _write(tmp_path, files)
    assert list(_added(root)[0]) == ["requirements.txt"]
    assert list(_added(root, "bot")[0]) == ["requirements.txt"]
    (root / "bot/requirements.txt").write_text("anthropic\n")
    assert list(_added(root, "bot")[0]) == ["bot/requirements.txt"]


def test_pip_tools_sources_are_edited_and_locks_named_with_their_command(tmp_path: Path) -> None:
    files = {
        "requirements.in": "anthropic\n",
        "requirements.txt": "# autogenerated by pip-compile\nanthropic==1\n",
    }
    texts, left = _added(_write(tmp_path, files))
    assert list(texts) == ["requirements.in"]
    assert "pip-compile requirements.in" in left[0]


@pytest.mark.parametrize(
    ("lock", "command"), [("uv.lock", "uv lock"), ("poetry.lock", "poetry lock")]
)
def test_lock_files_are_not_edited(lock: str, command: str, tmp_path: Path) -> None:
    files = {"pyproject.toml": '[project]\ndependencies = ["anthropic"]\n', lock: "x"}
    texts, left = _added(_write(tmp_path, files))
    assert list(texts) == ["pyproject.toml"]
    assert left == [f"{lock} Lock files are not edited. Update it: {command}"]


def test_a_linked_manifest_is_not_written_through(tmp_path: Path) -> None:
    root = _write(tmp_path / "made", {"requirements.txt": "anthropic\n"})
    (root / "bot").mkdir()
    (root / "bot/requirements.txt").symlink_to("../requirements.txt")
    assert list(_added(root, "bot")[0]) == ["requirements.txt"]


# --- ratchet.toml

TABLES: dict[str, Any] = {
    "agent": {"entry": "ratchet_agent:run", "name": "library", "path": [".", "src"]},
    "tasks": {"file": "tasks.jsonl", "split": {"train": 0.5, "val": 0.2, "test": 0.3}},
    "evaluators": [{"use": "exact_match"}, {"use": "contains", "name": 'has é "q" \\'}],
    "objective": {"evaluator": "exact_match"},
    "run": {"timeout_s": 60.0, "attempts": 1},
    "improve": {"algorithm": "auto", "budget": {"rollouts": 500}},
    "upstreams": {"main": {"dialect": "openai", "base_url": "https://a.example/v1"}},
    "prices": {"model.x/1": {"input": 1.0, "output": 2.0}},
    "guardrails": [{"metric": "cost", "off": True}],
}


def test_the_settings_are_read_as_they_were_given(tmp_path: Path) -> None:
    [change] = config_file(tmp_path, ".", TABLES).files
    assert change.content is not None
    assert tomllib.loads(change.content) == TABLES
    assert "# What a rollout runs for each task.\n[agent]\n" in change.content
    (tmp_path / "ratchet.toml").write_text(change.content)
    config = read_config(tmp_path / "ratchet.toml")
    assert config.agent.entry == "ratchet_agent:run"
    assert config.tasks.split.train == 0.5
    assert config.improve.budget.rollouts == 500


def test_settings_that_exist_keep_every_byte_and_get_the_missing_tables(tmp_path: Path) -> None:
    own = b'# mine\r\n[agent] # this\r\nentry = "a:b"\r\n\r\n[[evaluators]]\r\nuse = "contains"'
    (tmp_path / "ratchet.toml").write_bytes(own)
    made = config_file(tmp_path, ".", TABLES)
    [change] = made.files
    text = apply_pieces(own, change.pieces)
    assert text.startswith(own + b"\r\n")
    assert b"\n" not in text.replace(b"\r\n", b"")
    data = tomllib.loads(text.decode().replace("\r\n", "\n"))
    assert data["agent"] == {"entry": "a:b"}
    assert data["tasks"] == TABLES["tasks"]
    left = {str(one.place): one.why for one in made.left_alone}
    assert 'name = "library"' in left["ratchet.toml:2"]
    assert "exact_match" in left["ratchet.toml:5"]
    (tmp_path / "ratchet.toml").write_bytes(text)
    assert not config_file(tmp_path, ".", TABLES).files


def test_settings_that_are_not_toml_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ratchet.toml").write_text("[agent\n")
    with pytest.raises(InputError, match=r"ratchet\.toml is not TOML"):
        config_file(tmp_path, ".", TABLES)


_KEYS = st.text('ab é."\\\n', min_size=1, max_size=4)
_VALUES = st.recursive(
    st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_any_tables_are_read_back(tables: dict[str, Any]) -> None:
    assert tomllib.loads(toml_text(tables, {"a": "A comment."})) == tables


# --- .gitignore and CI


@pytest.mark.parametrize("line", [".ratchet", ".ratchet/", "/.ratchet/", "**/.ratchet"])
def test_what_is_ignored_already_is_not_added(line: str, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text(f"a\n{line}  \n")
    assert not ignored(tmp_path, "bot").files


def test_the_nearest_gitignore_gets_the_line_else_a_new_one(tmp_path: Path) -> None:
    [new] = ignored(tmp_path, "bot").files
    assert (new.path, new.content) == ("bot/.gitignore", ".ratchet/\n")
    (tmp_path / ".gitignore").write_bytes(b"a\r\nb")
    [change] = ignored(tmp_path, "bot").files
    text = apply_pieces((tmp_path / ".gitignore").read_bytes(), change.pieces)
    assert (change.path, text) == (".gitignore", b"a\r\nb\r\n.ratchet/\r\n")


def test_the_job_is_added_only_when_asked_for_and_gitlabs_own_file_is_left(tmp_path: Path) -> None:
    root = _write(tmp_path, {})
    found = look(root)
    for asked in (False, True):
        made = project_files(root, found, choices_of(found, workflow=asked), TABLES).changes
        assert asked == any("workflows" in one.path for one in made.files)
    (root / ".gitlab-ci.yml").write_text("test:\n  script: [make]\n")
    made = workflow_file(root)
    assert [one.path for one in made.files] == [".gitlab/ratchet-evidence.yml"]
    assert "include: { local: .gitlab/ratchet-evidence.yml }" in made.left_alone[0].why


def test_tests_of_the_project_are_proposed_for_releases_and_not_set(tmp_path: Path) -> None:
    tests = {"test_agent.py": "import pytest\n\n\ndef test_it():\n    assert True\n"}
    root = _write(tmp_path, tests)
    facts = look(root)
    made = project_files(root, facts, choices_of(facts), {"agent": {"entry": "agent:answer"}})
    file = next(change for change in made.changes.files if change.path == "ratchet.toml")
    assert file.content is not None
    assert '[ship]\n# test = "{python} -m pytest"\n' in file.content
    (root / "ratchet.toml").write_text(file.content)
    assert read_config(root / "ratchet.toml").ship.test is None
    (root / "ratchet.toml").write_text(file.content.replace("# test", "test"))
    assert read_config(root / "ratchet.toml").ship.test == "{python} -m pytest"
