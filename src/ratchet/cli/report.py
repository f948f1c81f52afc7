"""`ratchet report`: a run as one HTML file."""

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
        typer.Option("--output", "-o", metavar="FILE", help="The file; ratchet-RUN.html if none."),
    ] = None,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Write a run as one HTML file: the decision, its evidence, what changed.

    It can be mailed: it holds no script and loads nothing. Prompts of the agent are in it.

    Examples:

      ratchet report

      ratchet report 1a2b3c4d -o proof.html
    """
    with project_in(folder).open_store() as store:
        selected = selected_run(store, run)
        text = run_report(store, selected)
    path = output or Path(f"ratchet-{selected.id[:8]}.html")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from None
    if json:
        print_json({"run": selected.id, "path": str(path)})
    else:
        out.print(f"Report: {display_path(path)}", markup=False)
