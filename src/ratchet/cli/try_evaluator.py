"""`ratchet evaluators try`: run an evaluator on one stored output."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ratchet.autopilot.agent_model import agent_model
from ratchet.autopilot.evaluator_trial import models_asked, try_evaluator
from ratchet.autopilot.project_evaluators import project_evaluators
from ratchet.cli.console import Folder, Json, number, out, print_json, project_in, short, wait_for
from ratchet.cli.errors import err
from ratchet.types import InputError


def try_(
    name: Annotated[str, typer.Argument(help="Name of the evaluator.")],
    identity: Annotated[
        str, typer.Argument(metavar="ID", help="A rollout or a trace, or the start of its id.")
    ],
    no_model: Annotated[
        bool, typer.Option("--no-model", help="Refuse an evaluator that calls a model.")
    ] = False,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Score one stored output and show the reason. The score is not stored and decides nothing.

    Of a live trace, the recorded answer is scored; it has no expected answer.

    Examples:

      ratchet evaluators try exact_match 1a2b3c4d

      ratchet evaluators try my_judge 1a2b3c4d --json
    """
    project = project_in(folder)
    by_name = {configured.name: configured for configured in project_evaluators(project)}
    if name not in by_name:
        raise InputError(
            f"There is no evaluator {name!r}.", hint=f"The evaluators are {', '.join(by_name)}."
        )
    evaluator = by_name[name]
    models = models_asked(evaluator)
    if no_model and models:
        raise InputError(
            f"{name!r} calls {', '.join(models)}, which may cost money.",
            hint="To allow this, omit --no-model.",
        )
    with (
        project.open_store() as store,
        agent_model(project, lambda sentence: err.print(sentence, style="dim", markup=False)),
    ):
        rollout, score = wait_for(
            try_evaluator(store, evaluator, identity), quiet=json, paid_by=project
        )
    spent = str(getattr(evaluator, "spending", ""))
    if json:
        print_json({"subject": rollout.id, "score": score, "models": models, "spent": spent})
        return
    value = "no score" if score.value is None else f"{number(score.value)} {score.unit}".rstrip()
    out.print(f"{name} of {short(rollout.id)}: [bold]{value}[/]", highlight=False)
    for sentence in (score.error or score.rationale, spent):
        if sentence:
            out.print(sentence, style="dim", markup=False)
