"""`ratchet init`: says what a repository holds, and takes a wiring back."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ratchet.cli.console import Json, print_json
from ratchet.types import InputError


def init(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[FOLDER]", help="Folder of the repository.")
    ] = None,
    folder: Annotated[
        Path, typer.Option("--in", metavar="FOLDER", help="Folder of the project.")
    ] = Path("."),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --undo: say what would be done.")
    ] = False,
    look: Annotated[
        bool, typer.Option("--look", help="Only say what the repository holds; run nothing.")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take back what ratchet init made; edits are kept.")
    ] = False,
    json: Json = False,
) -> None:
    """Say what a repository holds, or take a wiring back.

    Examples:

      ratchet init --look

      ratchet init --undo --dry-run

      ratchet init --undo
    """
    root = folder.resolve()
    if not root.is_dir():
        raise InputError(f"There is no folder {folder}.")
    root = _folder_of(root, command)
    if undo:
        from ratchet.cli.init_undo import undo_wiring

        undo_wiring(root, dry_run=dry_run, json=json)
        return
    if not look:
        raise InputError("Say --look or --undo.", hint="ratchet init --look")
    from ratchet.cli.init_look import print_look
    from ratchet.wire.looking import look as take_inventory

    inventory = take_inventory(root)
    if json:
        print_json(inventory)
    else:
        print_look(inventory)


def _folder_of(root: Path, words: Sequence[str] | None) -> Path:
    """The folder that --look and --undo are for: `ratchet init --look ../agent` names it too."""
    if not words:
        return root
    if len(words) > 1 or not (root / words[0]).is_dir():
        raise InputError(
            f"--look and --undo run no command: {shlex.join(words)}",
            hint="Leave the command out; another folder is named by --in FOLDER.",
        )
    return (root / words[0]).resolve()
