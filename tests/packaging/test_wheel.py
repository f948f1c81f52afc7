"""The two wheels: all of the package is in them, and they go around the loop by themselves."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest
from tests.faults.bad_coach import HONEST, KEY, Says, make_project
from tests.llm.endpoint import Endpoint
from tests.wheels import PARTS, build_wheel, environment_with

ROOT = Path(__file__).resolve().parents[2]

NEVER = ("__pycache__", ".ratchet", ".pytest_cache", ".venv", ".git/")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of this checkout, of the SDK and of the tool."""
    folder = tmp_path_factory.mktemp("wheels")
    return {part: build_wheel(part, folder) for part in PARTS}


@pytest.fixture(scope="module")
def installed(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheels, and this one's other packages."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    return environment_with(folder, *wheels.values())


def files_below(folder: Path) -> set[str]:
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {name for name in found if not any(part in f"{name}/" for part in NEVER)}


def test_every_file_of_the_package_is_in_the_wheel_and_nothing_that_a_run_left(
    wheels: dict[str, Path],
) -> None:
    with zipfile.ZipFile(wheels["sdk"]) as archive:
        of_sdk = archive.namelist()
    with zipfile.ZipFile(wheels["tool"]) as archive:
        of_tool = archive.namelist()
        about = next(name for name in of_tool if name.endswith("entry_points.txt"))
        commands = archive.read(about).decode()
    names = [*of_sdk, *of_tool]
    assert len(set(names)) == len(names)
    packed = {name.removeprefix("ratchet/") for name in names if name.startswith("ratchet/")}
    example = {name for name in packed if name.startswith("_examples/")}
    skill = "_skills/ratchet/SKILL.md"
    assert packed - example - {skill} == files_below(ROOT / "src" / "ratchet")
    assert skill in packed
    assert {name.removeprefix("_examples/stdlib_helper/") for name in example} >= {
        "ratchet.toml",
        "tasks.jsonl",
        "pyproject.toml",
        "stdlib_helper/__init__.py",
    }
    assert not [name for name in names if any(part in name for part in NEVER)]
    assert "ratchet = ratchet.__main__:main" in commands


@pytest.mark.long
def test_what_the_wheel_installs_evolves_a_function_and_ships_it(
    installed: Path, tmp_path: Path
) -> None:
    with Endpoint(Says(f"It adds them up now.\n\n```python\n{HONEST}```")) as endpoint:
        project = make_project(tmp_path / "project", endpoint.url)

        def ratchet(*arguments: str) -> str:
            done = subprocess.run(
                [str(installed), "-m", "ratchet", *arguments],
                cwd=project,
                env={**os.environ, "OPENAI_API_KEY": KEY},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        said = "import ratchet; print(ratchet.__file__)"
        where = subprocess.run([str(installed), "-c", said], capture_output=True, text=True)
        assert where.stdout.startswith(str(installed.parents[1]))
        found = json.loads(ratchet("improve", "--json", "--seed", "7").splitlines()[-1])
        assert (found["stage"], found["verdict"]) == ("shipped", "promote")
        assert "The coach rewrote 'digits'" in ratchet("candidates")
        assert "+    return sum(int(digit) for digit in str(number))" in ratchet("diff", "--patch")
        staged = json.loads(ratchet("extract", "--json"))
        assert "digits" in json.dumps(staged)
