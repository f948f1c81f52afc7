"""`ratchet evaluators generate`: proposes evaluators, measures each, and writes what is kept."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ratchet.autopilot.agent_model import agent_model
from ratchet.autopilot.evaluator_generation import (
    ROLLOUTS,
    Generated,
    generate_evaluators,
    known_rollouts,
    write_evaluators,
)
from ratchet.cli.console import (
    Folder,
    Json,
    display_path,
    out,
    print_json,
    project_in,
    table,
    wait_for,
)
from ratchet.cli.errors import err
from ratchet.evaluate.generation import toml_tables
from ratchet.types.wording import counted


def generate(
    folder: Folder = Path("."),
    limit: Annotated[
        int, typer.Option(min=1, help="Learn from this many of the newest rollouts.")
    ] = ROLLOUTS,
    ask: Annotated[
        bool | None,
        typer.Option(
            "--ask/--no-ask", help="Also ask the coach; the default if the project names a coach."
        ),
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, max=50, help="Number of evaluators to ask the coach for.")
    ] = 6,
    write: Annotated[
        bool, typer.Option("--write", help="Add the evaluators that are kept to the project.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the random choices.")] = 0,
    json: Json = False,
) -> None:
    """Propose evaluators from the agent's outputs, labels and feedback, and measure each.

    Schemas, relations between fields, comparisons, shapes of answers and bounds are found in
    outputs that are known to be good; with a coach, a language model proposes code and rubrics.
    Each proposal is tried in the sandbox and gets a report card. Rejected ones are dropped.

    Examples:

      ratchet evaluators generate

      ratchet evaluators generate --write
    """
    project = project_in(folder)
    say = functools.partial((err if json else out).print, markup=False)
    with project.open_store() as store, agent_model(project, say):
        agent = project.load_agent()
        rollouts = known_rollouts(project, store, most=limit)
        generated = wait_for(
            generate_evaluators(
                project, store, agent, rollouts, ask=ask, count=count, say=say, seed=seed
            ),
            paid_by=project,
        )
    proposals = [evaluator.proposal for evaluator in generated if evaluator.kept]
    paths = write_evaluators(project.root, proposals) if write and proposals else []
    if json:
        print_json(
            {
                "evaluators": [_plain(evaluator) for evaluator in generated],
                "written": [str(path) for path in paths],
            }
        )
        return
    _print(generated)
    if not proposals:
        out.print("No evaluator was kept: label outputs with `ratchet label`, and try again.")
    elif paths:
        names = " and ".join(display_path(path) for path in paths)
        out.print(f"Written to {names}; `git diff` shows it.")
    else:
        out.print("\nFor ratchet.toml (--write adds these sections and their functions):\n")
        out.print(
            toml_tables(proposals, "generated_evaluators"),
            markup=False,
            highlight=False,
        )


def _plain(evaluator: Generated) -> dict[str, Any]:
    return {
        "name": evaluator.proposal.name,
        "why": evaluator.proposal.why,
        "made_by": evaluator.proposal.made_by,
        "use": evaluator.proposal.use,
        "options": evaluator.proposal.options,
        "source": evaluator.proposal.source,
        "verdict": evaluator.card.verdict if evaluator.card else None,
        "reasons": list(evaluator.card.reasons) if evaluator.card else [],
        "error": evaluator.error,
        "kept": evaluator.kept,
    }


def _print(generated: list[Generated]) -> None:
    rows = table("evaluator", "from", "verdict", "why")
    for evaluator in generated:
        verdict = (
            "error" if evaluator.error else evaluator.card.verdict if evaluator.card else "a bound"
        )
        reason = evaluator.error or (
            evaluator.card.reasons[0] if evaluator.card and evaluator.card.reasons else ""
        )
        why = evaluator.proposal.why if evaluator.kept else reason
        color = {"decides": "green", "rejected": "red", "error": "red"}.get(verdict, "yellow")
        rows.add_row(
            evaluator.proposal.name,
            evaluator.proposal.made_by,
            f"[{color}]{verdict}[/]",
            escape(why),
        )
    accepted = sum(evaluator.kept for evaluator in generated)
    out.print(f"{counted(len(generated), 'evaluator')} proposed, {accepted} kept")
    out.print(rows)
