"""`ratchet verify`: recompute the numbers of an evidence file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ratchet.cli.console import Folder, Json, out, print_json, project_in
from ratchet.cli.run_outcome import print_decision
from ratchet.prove import verify as recompute
from ratchet.types import Decision, InputError


def verify(
    evidence: Annotated[
        Path | None,
        typer.Argument(help="An evidence file; by default that of the newest experiment."),
    ] = None,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Recompute every number of an evidence file, bit for bit.

    Exits with 6 when anything in it was altered or does not follow from its pairs.

    Examples:

      ratchet verify

      ratchet verify .ratchet/evidence/1a2b3c4d5e6f.json
    """
    path = evidence or _newest(folder)
    recomputed = recompute(path)
    if json:
        print_json(
            {
                "path": recomputed.path,
                "ok": recomputed.ok,
                "pairs": recomputed.pairs,
                "digest": recomputed.digest,
                "findings": recomputed.findings,
                "decision": recomputed.decision,
            }
        )
    recomputed.require()
    if not json:
        unit = "pairs" if isinstance(recomputed.decision, Decision) else "observations"
        out.print(
            f"[bold green]Verified:[/] all of {recomputed.pairs} {unit} recompute to the "
            "stated numbers."
        )
        if isinstance(recomputed.decision, Decision):
            print_decision(recomputed.decision)
        out.print(recomputed.decision.sentence, markup=False)


def _newest(folder: Path) -> Path:
    with project_in(folder).open_store() as store:
        for experiment in reversed(store.experiments.history()):
            if experiment.evidence_path:
                return Path(experiment.evidence_path)
    raise InputError(
        "There is no experiment with evidence yet.", hint="Create one: ratchet improve."
    )
