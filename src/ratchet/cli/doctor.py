"""`ratchet doctor`: whether `ratchet.toml` and the declared prompts still fit the project."""

from __future__ import annotations

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
    """Check that ratchet.toml names what is there, and that prompts are still declared.

    Nothing is run, imported or written. The exit code is 1 when something does not fit.

    Examples:

      ratchet doctor

      ratchet doctor ../my-agent --json
    """
    from ratchet.autopilot.doctor import diagnose

    diagnosis = diagnose(path)
    if json:
        print_json(diagnosis)
    else:
        for misfit in diagnosis.misfits:
            out.print(f"[red]broken[/] {misfit.place}:", end=" ")
            out.print(f"{misfit.what} {misfit.next_step}", markup=False)
        if not diagnosis.misfits:
            out.print("[green]ok[/]    What the settings name is there.")
    if diagnosis.misfits:
        problems = counted(len(diagnosis.misfits), "problem")
        raise RatchetError(f"The settings do not fit the project: {problems}.")
