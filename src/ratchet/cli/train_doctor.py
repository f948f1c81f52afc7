"""`ratchet train doctor`: whether a model can be trained here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ratchet.cli.console import Folder, Json, out, print_json, project_in
from ratchet.observe.project_paths import folder_with_config
from ratchet.types import RatchetError


def doctor(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="smollm2, a GGUF file or a folder; by default the agent's model.",
        ),
    ] = None,
    folder: Folder = Path("."),
    device: Annotated[
        str | None, typer.Option(help="A PyTorch device name; by default the agent's.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32, bfloat16 or float16; by default the agent's.")
    ] = None,
    json: Json = False,
) -> None:
    """Check that a model can be trained: template, tokens, and that new weights reach it.

    Examples:

      ratchet train doctor

      ratchet train doctor ./my-model --device cuda --dtype bfloat16
    """
    from ratchet.autopilot.train_doctor import check_training

    if model is None and folder_with_config(folder) is not None:
        project = project_in(folder)
        agent = project.config.agent
        path = (agent.model or "").partition(":")[2]
        model = str(project.root / path) if path else agent.model
        device, dtype = device or agent.device, dtype or agent.dtype
    checks = []
    for check in check_training(
        model or "smollm2", device=device or "cpu", dtype=dtype or "float32"
    ):
        checks.append(check)
        if not json:
            mark = "[green]ok[/]    " if check.passed else "[red]failed[/]"
            out.print(mark, end=" ")
            out.print(f"{check.name}: {check.sentence}", markup=False)
    if json:
        print_json({"checks": [check._asdict() for check in checks]})
    failed = [check.name for check in checks if not check.passed]
    if failed:
        raise RatchetError(f"The model cannot be trained. Failed checks: {', '.join(failed)}.")
