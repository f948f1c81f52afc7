"""`ratchet improve`: run the loop once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from ratchet.autopilot import Project
from ratchet.autopilot import improve as go_around
from ratchet.autopilot.chosen_candidate import ProofWanted
from ratchet.autopilot.code_sandbox import UNSAFE_WARNING
from ratchet.autopilot.problem_work import find_problem, prepare
from ratchet.autopilot.run_outcome import RunOutcome, outcome_of
from ratchet.cli.console import (
    DatasetOption,
    Folder,
    Json,
    SkipBad,
    out,
    print_json,
    project_in,
    wait_for,
)
from ratchet.cli.errors import err
from ratchet.cli.plot import png_plot, text_plot
from ratchet.cli.progress import TerminalWatcher
from ratchet.cli.run_outcome import print_outcome
from ratchet.client.address import address_of
from ratchet.llm import CoachUnavailable

SeedOption = Annotated[
    int | None, typer.Option(help="Seed of the search and of the order of test tasks.")
]
RolloutsOption = Annotated[
    int | None, typer.Option(min=1, help="Maximum number of rollouts for learning.")
]
AtMostOption = Annotated[
    int | None,
    typer.Option(min=1, help="Maximum number of rollouts in total: baseline, learning and proof."),
]
ShipOption = Annotated[
    bool, typer.Option(help="Create the branch; --no-ship stops before this step.")
]


def improve(
    folder: Folder = Path("."),
    seed: SeedOption = None,
    algorithm: Annotated[
        str | None, typer.Option(help="Learning algorithm: auto, evolve, apo, …")
    ] = None,
    rollouts: RolloutsOption = None,
    at_most: AtMostOption = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=1, help="Seconds of learning after which no new step begins."),
    ] = None,
    ship: ShipOption = True,
    server: Annotated[
        str | None,
        typer.Option(
            help="Run the rollouts on the runners of this server; the key is read from RATCHET_KEY."
        ),
    ] = None,
    unsafe_no_sandbox: Annotated[
        bool,
        typer.Option(
            "--unsafe-no-sandbox",
            help="Run candidates' code without a sandbox if none is available.",
        ),
    ] = False,
    dataset: DatasetOption = None,
    problem: Annotated[
        str | None,
        typer.Option(help="Work on the problem whose id starts with this; see ratchet problems."),
    ] = None,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Learn a better candidate, prove it on held-out tasks, and ship it as a branch.

    A run without a gain succeeds too: it reports so and ships nothing. After an interruption, the
    same command continues where the run stopped.

    Examples:

      ratchet improve

      ratchet improve --seed 1 --rollouts 500

      ratchet improve --at-most 1000

      ratchet improve --algorithm evolve

      ratchet improve --dataset support@1a2b3c4d

      ratchet improve --problem 3f2a9c

      ratchet improve --no-ship --json

      ratchet improve --server http://10.0.0.5:8765
    """
    project = with_budget(
        _learning_by(project_in(folder).with_dataset(dataset), algorithm), rollouts, seconds
    )
    if server is not None:
        project = _at_server(project, server)
    if unsafe_no_sandbox:
        project = _without_sandbox(project)
    outcome = improve_project(
        project,
        seed=seed,
        ship=ship,
        skip_bad=skip_bad,
        quiet=json,
        at_most=at_most,
        problem=problem,
    )
    if json:
        print_json(outcome.for_machines())
    else:
        print_outcome(outcome)
    if outcome.coach_gone and outcome.run.stage not in ("ship", "shipped", "prove"):
        raise CoachUnavailable(
            f"{outcome.coach_gone['message']} The result found without the coach is not proved "
            "better.",
            hint="Once the coach answers again, repeat the search: ratchet improve --seed 1.",
        )


def improve_project(
    project: Project,
    *,
    seed: int | None,
    ship: bool,
    skip_bad: bool,
    quiet: bool,
    at_most: int | None = None,
    chosen: ProofWanted | None = None,
    problem: str | None = None,
) -> RunOutcome:
    """Run the loop with progress output, on standard error when `quiet`."""
    with project.open_store() as store, TerminalWatcher(err if quiet else out) as watcher:
        found = None if problem is None else find_problem(store, problem)
        if found is not None:
            work = prepare(project, store, found, time.time())
            project = work.project
            for sentence in work.sentences:
                watcher.message(sentence)
        run = wait_for(
            go_around(
                project,
                store,
                watcher=watcher,
                seed=seed,
                skip_bad=skip_bad,
                ship_it=ship,
                at_most=at_most,
                chosen=chosen,
                problem=found,
            ),
            quiet=quiet,
        )
        return outcome_of(store, run)


def show_plot(outcome: RunOutcome, metric: str, path: Path) -> Path | None:
    """Plot the score over trials in the terminal and write it as a PNG; None without trials."""
    if not outcome.proposals:
        return None
    out.print()
    plot = text_plot(outcome.proposals, metric, color=out.is_terminal)
    # The plot contains terminal codes: rich must not parse its brackets.
    out.file.write(plot + "\n")
    baseline = next((p.value for p in outcome.proposals if p.number == 0), None)
    png_plot(outcome.proposals, metric, path, baseline=baseline)
    return path


def _learning_by(project: Project, algorithm: str | None) -> Project:
    """The project with another algorithm, without the options of the configured one."""
    config = project.config
    if algorithm is None or algorithm == config.improve.algorithm:
        return project
    learning = config.improve.model_copy(update={"algorithm": algorithm, "options": {}})
    return project.with_config(config.model_copy(update={"improve": learning}))


def with_budget(project: Project, rollouts: int | None, seconds: float | None) -> Project:
    """The project with other limits of learning; None leaves a limit unchanged."""
    config = project.config
    changes = {
        name: value
        for name, value in (("rollouts", rollouts), ("seconds", seconds))
        if value is not None
    }
    if not changes:
        return project
    budget = config.improve.budget.model_copy(update=changes)
    learning = config.improve.model_copy(update={"budget": budget})
    return project.with_config(config.model_copy(update={"improve": learning}))


def _at_server(project: Project, server: str) -> Project:
    run = project.config.run.model_copy(update={"server": address_of(server).url})
    return Project(project.root, project.config.model_copy(update={"run": run}))


def _without_sandbox(project: Project) -> Project:
    err.print(UNSAFE_WARNING, style="yellow", markup=False)
    section = project.config.sandbox.model_copy(update={"unsafe": True})
    return project.with_config(project.config.model_copy(update={"sandbox": section}))
