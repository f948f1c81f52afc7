"""A manifest gets the SDK only once the project's own resolver said that the result resolves."""

from __future__ import annotations

import os
import socket
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from ratchet.wire.changes import LeftAlone, apply_pieces
from ratchet.wire.project_files import resolving
from ratchet.wire.project_files.dependency import Edited, manifest_of, with_sdk
from ratchet.wire.project_files.manifests import Unedited, read_manifest, with_requirement

PYTHON = Path(sys.executable)
NEW = "agent-ratchet>=0.3.1"
OLD = f"{NEW}; python_version >= '3.11'"


def _wheel(folder: Path, name: str, version: str, *requires: str) -> None:
    info = f"{name}-{version}.dist-info"
    wanted = "".join(f"Requires-Dist: {one}\n" for one in requires)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{wanted}"
        wheel.writestr(f"{info}/METADATA", metadata)
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index of wheels in a folder, the only one that pip asks."""
    folder = tmp_path / "index"
    folder.mkdir()
    for version in ("2.7.2", "2.9.0"):
        _wheel(folder, "pydantic", version)
    _wheel(folder, "anthropic", "1.0", "pydantic>=2")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


def _write(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode())
    return root


def _after(root: Path, edited: Edited) -> str:
    data = (root / edited.change.path).read_bytes()
    return apply_pieces(data, edited.change.pieces).decode()


def test_the_version_that_the_resolver_found_is_written(index: Path, tmp_path: Path) -> None:
    _wheel(index, "agent_ratchet", "0.3.1", "pydantic>=2")
    root = _write(tmp_path / "made", {"requirements.txt": "anthropic==1.0\npydantic==2.7.2"})
    edited = with_sdk(root, "requirements.txt", PYTHON)
    assert isinstance(edited, Edited)
    assert _after(root, edited) == f"anthropic==1.0\npydantic==2.7.2\n{NEW}\n"
    assert edited.version == "0.3.1"
    assert edited.next_step == f"{PYTHON} -m pip install -r requirements.txt"
    (root / "requirements.txt").write_text(_after(root, edited))
    assert with_sdk(root, "requirements.txt", PYTHON) is None
    assert sorted(file.name for file in root.iterdir()) == ["requirements.txt"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("requirements.txt", "pydantic==2.7.2\n"),
        (
            "pyproject.toml",
            '[project]\nname = "a"\nversion = "1"\ndependencies = ["pydantic==2.7.2"]\n',
        ),
    ],
)
def test_a_pin_that_the_sdk_does_not_fit_is_left_with_the_reason(
    path: str, text: str, index: Path, tmp_path: Path
) -> None:
    _wheel(index, "agent_ratchet", "0.3.1", "pydantic>=2.8")
    root = _write(tmp_path / "made", {path: text})
    left = with_sdk(root, path, PYTHON)
    assert isinstance(left, LeftAlone)
    assert "with agent-ratchet it does not resolve; pip says:" in left.why
    assert "run as a command" in left.why
    assert (root / path).read_text() == text


def test_no_version_is_written_that_no_index_has(index: Path, tmp_path: Path) -> None:
    root = _write(tmp_path / "made", {"requirements.txt": "pydantic\n"})
    left = with_sdk(root, "requirements.txt", PYTHON)
    assert isinstance(left, LeftAlone)
    assert "no index that pip uses has a version of agent-ratchet" in left.why


def test_a_manifest_that_does_not_resolve_by_itself_is_told_apart(
    index: Path, tmp_path: Path
) -> None:
    _wheel(index, "agent_ratchet", "0.3.1")
    root = _write(tmp_path / "made", {"requirements.txt": "pydantic==9.9\n"})
    left = with_sdk(root, "requirements.txt", PYTHON)
    assert isinstance(left, LeftAlone)
    assert "it does not resolve even without Ratchet" in left.why


def test_an_index_that_never_answers_is_waited_for_in_bounds(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/simple")
        monkeypatch.setattr(resolving, "TIMEOUT_S", 2.0)
        root = _write(tmp_path / "made", {"requirements.txt": "pydantic\n"})
        left = with_sdk(root, "requirements.txt", PYTHON)
    assert isinstance(left, LeftAlone)
    assert "did not answer within 2 s" in left.why


def test_without_pip_and_uv_nobody_can_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {PYTHON} -I -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    root = _write(tmp_path / "made", {"requirements.txt": "pydantic\n"})
    left = with_sdk(root, "requirements.txt", bare)
    assert isinstance(left, LeftAlone)
    assert "neither uv nor pip" in left.why


def test_what_poetry_reads_is_resolved_by_poetry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '[tool.poetry.dependencies]\npython = "^3.10"\nanthropic = "*"\n'
    root = _write(tmp_path / "made", {"pyproject.toml": text, "poetry.lock": ""})
    monkeypatch.setenv("PATH", "/nowhere")
    left = with_sdk(root, "pyproject.toml", PYTHON)
    assert isinstance(left, LeftAlone)
    assert "Poetry, which resolves it, is not installed" in left.why
    # Poetry's own answer, as poetry 2.1 prints it.
    poetry = tmp_path / "bin/poetry"
    poetry.parent.mkdir()
    poetry.write_text(
        textwrap.dedent(
            """\
            #!/bin/sh
            test "$1 $2 $3 $4" = "add --lock --dry-run agent-ratchet" || exit 9
            /bin/ls > seen; /usr/bin/cmp -s pyproject.toml "$OWN" || exit 8
            echo 'Using version ^0.3.1 for agent-ratchet'
            """
        )
    )
    poetry.chmod(0o755)
    monkeypatch.setenv("PATH", str(poetry.parent))
    monkeypatch.setenv("OWN", str(root / "pyproject.toml"))
    edited = with_sdk(root, "pyproject.toml", PYTHON)
    assert isinstance(edited, Edited), edited
    line = 'agent-ratchet = { version = ">=0.3.1", python = ">=3.11" }\n'
    assert _after(root, edited) == text.replace("anthropic", line + "anthropic")
    assert edited.next_step == "poetry lock && poetry install"


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("requirements.txt", "# all\nanthropic", f"# all\nanthropic\n{NEW}\n"),
        ("requirements.txt", "anthropic\r\n", f"anthropic\r\n{NEW}\r\n"),
        ("requirements.txt", "", f"{NEW}\n"),
        (
            "pyproject.toml",
            '[project]\nname = "a"\ndependencies = [\n    "anthropic", # why\n    "httpx"\n]\n',
            f'[project]\nname = "a"\ndependencies = [\n    "{NEW}",\n    "anthropic", # why\n'
            '    "httpx"\n]\n',
        ),
        (
            "pyproject.toml",
            "[project]\ndependencies = ['anthropic']\nrequires-python = '>=3.11'\n",
            f"[project]\ndependencies = ['{NEW}', 'anthropic']\nrequires-python = '>=3.11'\n",
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
            f'[project]\r\nname = "a"\r\ndependencies = ["{NEW}"]\r\n',
        ),
        (
            "pyproject.toml",
            '[project]\nname = "a"\n\n[tool.ruff]\n',
            f'[project]\nname = "a"\ndependencies = ["{NEW}"]\n\n[tool.ruff]\n',
        ),
        (
            "pyproject.toml",
            '[tool.poetry.dependencies]\npython = "^3.12"\nanthropic = "*"\n',
            '[tool.poetry.dependencies]\npython = "^3.12"\nagent-ratchet = ">=0.3.1"\n'
            'anthropic = "*"\n',
        ),
    ],
)
def test_the_requirement_is_written_in_the_manifests_own_form(
    path: str, before: str, after: str
) -> None:
    data = before.encode()
    piece = with_requirement(read_manifest(path, data), "0.3.1")
    made = apply_pieces(data, [piece])
    assert made.decode() == after
    assert read_manifest(path, made).has_sdk


@pytest.mark.parametrize(
    ("path", "text", "sentence"),
    [
        ("requirements.txt", "# autogenerated by pip-compile\nanthropic==1\n", "compiled"),
        ("requirements.txt", "anthropic==1 --hash=sha256:00\n", "compiled"),
        ("requirements.txt", "-e .\nanthropic\n", "would build"),
        ("requirements.txt", "../shared\n", "would build"),
        ("setup.py", "setup(install_requires=['anthropic'])\n", "Ratchet does not edit"),
        ("environment.yml", "dependencies:\n- anthropic\n", "Ratchet does not edit"),
        ("pyproject.toml", "[project\n", "cannot be read"),
        ("pyproject.toml", "[tool.ruff]\n", "no dependencies of its own"),
        ("pyproject.toml", '[project]\ndynamic = ["dependencies"]\n', "no dependencies of its own"),
        ("pyproject.toml", '[project]\nrequires-python = "<3.11"\ndependencies = []\n', "3.11"),
    ],
)
def test_a_manifest_of_another_form_is_left(path: str, text: str, sentence: str) -> None:
    with pytest.raises(Unedited, match=sentence):
        read_manifest(path, text.encode())


def test_of_several_manifests_the_nearest_that_declares_a_framework_is_taken(
    tmp_path: Path,
) -> None:
    root = _write(
        tmp_path,
        {
            "pyproject.toml": '[project]\ndependencies = ["httpx"]\n',
            "requirements.txt": "anthropic==1\n",
            "bot/requirements.txt": "httpx\n",
        },
    )
    assert manifest_of(root, ".") == "requirements.txt"
    assert manifest_of(root, "bot") == "requirements.txt"
    (root / "bot/requirements.txt").write_text("anthropic[bedrock]>=1\n")
    assert manifest_of(root, "bot") == "bot/requirements.txt"
    (root / "bot/requirements.txt").unlink()
    (root / "bot/requirements.txt").symlink_to("../requirements.txt")
    assert manifest_of(root, "bot") == "requirements.txt"
    assert manifest_of(tmp_path / "bot", ".") is None
