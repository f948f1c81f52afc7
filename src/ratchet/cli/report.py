"""`ratchet report`: write a run as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ratchet.autopilot.run_report import run_report
from ratchet.cli.candidates import selected_run
from ratchet.cli.console import Folder, Json, display_path, out, print_json, project_in
from ratchet.types import InputError


def report(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="Start of a run's id; the newest run by default."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="[default: .ratchet/reports/RUN.html]"),
    ] = None,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Write a run as an HTML file: the decision, its evidence, and what changed.

    It can be mailed: it holds no script and loads nothing. Prompts of the agent are in it.

    Examples:

      ratchet report

      ratchet report 1a2b3c4d -o proof.html
    """
    project = project_in(folder)
    with project.open_store() as store:
        selected = selected_run(store, run)
        text = run_report(store, selected)
    # Not among the agent's own files: one more of these would be another version of the agent.
    path = output or project.state / "reports" / f"{selected.id[:8]}.html"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from None
    if json:
        print_json({"run": selected.id, "path": str(path)})
    else:
        out.print(f"Report: {display_path(path)}", markup=False)
