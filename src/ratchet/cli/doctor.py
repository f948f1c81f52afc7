"""`ratchet doctor`: whether `ratchet.toml` still fits the project, and models are still served."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ratchet.cli.console import Json, out, print_json
from ratchet.types import RatchetError
from ratchet.types.wording import counted


def doctor(
    path: Annotated[Path, typer.Argument(metavar="[PATH]", help="Folder of the project.")] = Path(
        "."
    ),
    json: Json = False,
) -> None:
    """Check that ratchet.toml fits the project, prompts are declared, and no model is retired.

    Nothing is run or imported, and no file of the project is written. Models are those that
    recorded calls of 30 days asked for, else those named in the source, and those in ratchet.toml.
    The exit code is 1 when something does not fit, or a model has ended.

    Examples:

      ratchet doctor

      ratchet doctor ../my-agent --json
    """
    from ratchet.autopilot.doctor import diagnose

    diagnosis = diagnose(path, datetime.now(UTC).date())
    ended = [model for model in diagnosis.ending_models if model.past]
    if json:
        print_json(diagnosis)
    else:
        for misfit in diagnosis.misfits:
            out.print(f"[red]broken[/] {misfit.place}:", end=" ")
            out.print(f"{misfit.what} {misfit.next_step}", markup=False)
        if not diagnosis.misfits:
            out.print("[green]ok[/]    Everything that the settings name exists.")
        for model in diagnosis.ending_models:
            out.print("[red]ended[/] " if model.past else "[yellow]ends[/]  ", end=" ")
            out.print(model.what, markup=False)
            out.print(f"       {model.next_step}", markup=False)
    if diagnosis.misfits:
        problems = counted(len(diagnosis.misfits), "problem")
        raise RatchetError(f"The settings do not fit the project: {problems}.")
    if ended:
        raise RatchetError(f"The agent uses {counted(len(ended), 'retired model')}.")
