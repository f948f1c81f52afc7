"""A package of somebody else adds to the house what it offers as entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import CONFIG, INLINE, Project, build
from tests.weights.fine_tuning_server import KEY, fine_tuning_server
from tests.wheels import PARTS, build_wheel, environment_with

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "ratchet-{name}"
version = "1.2"

[project.entry-points."ratchet.algorithms"]
fixed = "ratchet_{name}:Fixed"
broken = "ratchet_{name}:Missing"
shapeless = "ratchet_{name}:Shapeless"
number = "ratchet_{name}:NUMBER"

[project.entry-points."ratchet.trackers"]
lines = "ratchet_{name}:lines"

[project.entry-points."ratchet.hosted_training"]
ours = "ratchet_{name}:OURS"
number = "ratchet_{name}:NUMBER"
"""

MODULE = """
import msgspec
from ratchet.learn import Finding, mean
from ratchet.weights.hosted import HostedProvider
from ratchet.weights.hosted.openai_api import OpenAIService

NUMBER = 4


class Shapeless:
    pass


class Fixed:
    name = "fixed"

    def __init__(self, aim: float = 0.5):
        self.aim = aim

    async def learn(self, lab):
        knobs = lab.targets["knobs"]
        values = {**knobs.values, "aim": self.aim}
        change = {"knobs": msgspec.structs.replace(knobs, values=values)}
        candidate = lab.propose(change, algorithm=self.name, reason="It is fixed.")
        before, after = [
            mean(await lab.evaluate(tried, lab.val)) for tried in (lab.baseline, candidate)
        ]
        return Finding(
            best=candidate, baseline_val=before, best_val=after, proposals=1, sentence="Fixed."
        )


OURS = HostedProvider("https://ours.invalid/v1", "OURS_KEY", lambda _, *at: OpenAIService(*at))


def lines(curves, place):
    with open(place, "w") as file:
        file.writelines(f"{step} {numbers}\\n" for step, numbers in curves.points)
    return f"{curves.name} is in {place}"
"""


def package(name: str, folder: Path) -> Path:
    """The wheel of a package with an algorithm, a tracker and a provider."""
    home = folder / name
    home.mkdir()
    (home / "pyproject.toml").write_text(PYPROJECT.format(name=name))
    (home / f"ratchet_{name}.py").write_text(MODULE)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    done = subprocess.run(build, cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next((home / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("wheels")
    return [*(build_wheel(part, folder) for part in PARTS), package("aims", folder)]


@pytest.fixture(scope="module")
def python(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the house and the package."""
    return environment_with(tmp_path_factory.mktemp("environment") / "venv", *wheels)


def ratchet(
    python: Path, project: Project, *arguments: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(python), "-m", "ratchet", *arguments],
        cwd=project.root,
        env={**os.environ, "COLUMNS": "300", **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def configured(folder: Path, algorithm: str, options: str = "", train: str = "") -> Project:
    config = CONFIG.replace('"tune"', f'"{algorithm}"').replace("max_trials = 12", options)
    return build(folder, config=config + INLINE + train)


def test_an_algorithm_of_another_package_improves_an_agent(tmp_path: Path, python: Path) -> None:
    project = configured(tmp_path / "project", "fixed", "aim = 0.6")
    done = ratchet(python, project, "improve", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "promote"
    shipped = project.git("for-each-ref", "--format=%(refname)", "refs/heads/ratchet").strip()
    assert "Float(0.6" in project.git("show", f"{shipped}:agent.py")


def test_the_curves_of_a_training_go_to_the_tracker_of_another_package(
    tmp_path: Path, python: Path
) -> None:
    project = build(tmp_path / "project")
    run = project.root / ".ratchet" / "training" / "one"
    run.mkdir(parents=True)
    (run / "metrics.jsonl").write_text('{"step": 1, "loss": 0.5}\n')
    done = ratchet(python, project, "train", "runs", "--send", "lines=curves.txt")
    assert done.returncode == 0, done.stderr
    assert "one is in curves.txt" in done.stdout
    assert (project.root / "curves.txt").read_text() == "1 {'loss': 0.5}\n"
    done = ratchet(python, project, "train", "runs", "--send", "lines")
    assert (done.returncode, "--send 'lines' does not name a tracker" in done.stderr) == (2, True)


def test_a_model_is_trained_at_the_provider_of_another_package(
    tmp_path: Path, python: Path
) -> None:
    with fine_tuning_server() as server:
        train = f'\n[train]\nprovider = "ours"\nbase_url = "{server.url}"\nmodel = "small"\n'
        project = configured(tmp_path / "project", "fixed", train=train)
        project.write("sft.jsonl", '{"messages": []}\n')
        start = ("train", "start", "sft.jsonl", "--interval", "0.1", "--json")
        done = ratchet(python, project, *start, OURS_KEY=KEY)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["job"]["provider"] == "ours"
        assert "OURS_KEY is not set" in ratchet(python, project, *start).stderr


def refusal(python: Path, project: Project) -> str:
    done = ratchet(python, project, "improve")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("algorithm", "options", "said"),
    [
        ("broken", "", "cannot be loaded from ratchet-aims 1.2: AttributeError: module"),
        ("number", "", "NUMBER of ratchet-aims 1.2, which cannot be used as one of the group"),
        ("shapeless", "", "'shapeless' is not an algorithm: it lacks name or learn."),
        ("fixed", "goal = 1", "fixed has no such option; it has aim."),
        (
            "fixd",
            "",
            "Did you mean 'fixed'? A package beside Ratchet's tool adds one by an entry point",
        ),
    ],
)
def test_what_a_package_offers_wrongly_is_named_with_the_package(
    tmp_path: Path, python: Path, algorithm: str, options: str, said: str
) -> None:
    assert said in refusal(python, configured(tmp_path / "project", algorithm, options))


def test_two_packages_that_offer_the_same_are_named(tmp_path: Path, wheels: list[Path]) -> None:
    both = environment_with(tmp_path / "both", *wheels, package("knobs", tmp_path))
    project = configured(tmp_path / "project", "fixed")
    assert "is offered by ratchet-aims 1.2 and ratchet-knobs 1.2" in refusal(both, project)
