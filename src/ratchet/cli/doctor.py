"""`ratchet doctor`: whether the wiring of a project still fits it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ratchet.cli.console import Json, counted, out, print_json
from ratchet.types import RatchetError


def doctor(
    path: Annotated[
        Path, typer.Argument(metavar="[PATH]", help="Folder of the project or repository.")
    ] = Path("."),
    json: Json = False,
) -> None:
    """Check that the wiring of ratchet init and ratchet.toml still fit the code.

    Nothing is run, imported or written. The exit code is 1 when something does not fit.

    Examples:

      ratchet doctor

      ratchet doctor ../my-agent --json
    """
    from ratchet.autopilot.config import read_config
    from ratchet.types import ConfigError
    from ratchet.wire.facts import Place
    from ratchet.wire.former.doctor import diagnose
    from ratchet.wire.former.fitting import Misfit

    found = diagnose(path)
    misfits = list(found.misfits)
    file = Path(found.root, found.project, "ratchet.toml")
    try:
        read_config(file)
    except ConfigError as error:
        name = file.relative_to(found.root).as_posix()
        if not any(one.place.path == name and not one.place.line for one in misfits):
            what = error.message.removeprefix(f"{file}: ")
            misfits.append(Misfit(Place(name), what, error.hint or "Correct it."))
    if json:
        print_json(
            {
                "root": found.root,
                "project": found.project,
                "prompts": found.prompts,
                "misfits": misfits,
            }
        )
    else:
        for one in misfits:
            out.print(f"[red]broken[/] {one.place}:", end=" ")
            out.print(f"{one.what} {one.next_step}", markup=False)
        if not misfits:
            out.print(
                f"[green]ok[/]    {counted(found.prompts, 'bound prompt')}: all that was wired"
                " still fits."
            )
    if misfits:
        raise RatchetError(f"The wiring does not fit: {counted(len(misfits), 'problem')}.")
