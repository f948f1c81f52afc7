"""`ratchet train export`: write rollouts and feedback as training data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from ratchet.cli.console import Folder, Json, display_path, out, print_json, project_in
from ratchet.types import InputError
from ratchet.types.wording import counted

Kind = Annotated[str, typer.Option("--method", help="sft (conversations) or dpo (pairs).")]
Format = Annotated[str, typer.Option(help="openai, trl, sharegpt or parquet.")]


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    method: Kind = "sft",
    format: Format = "openai",
    validation: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A file for the val split; by default that split is left out."
        ),
    ] = None,
    evaluator: Annotated[
        str | None,
        typer.Option(help="Select by this evaluator's score; by default the objective's."),
    ] = None,
    min_score: Annotated[float, typer.Option(help="sft: minimum score of a rollout.")] = 0.8,
    best: Annotated[
        int | None,
        typer.Option(metavar="K", help="sft: maximum number of rollouts per task, best first."),
    ] = None,
    gap: Annotated[
        float, typer.Option(help="dpo: minimum difference between the scores of a pair.")
    ] = 0.2,
    purpose: Annotated[
        str, typer.Option(help="Only rollouts whose purpose begins with this, such as eval.")
    ] = "",
    source: Annotated[str, typer.Option("--from", help="rollouts, feedback or both.")] = "both",
    redacted: Annotated[
        bool, typer.Option("--redacted", help="Include calls with redacted text.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the files if they exist.")
    ] = False,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Export training data: the model calls of rollouts that scored well, and corrections.

    Tasks of the test split, and inputs that say nearly the same, are never exported.

    Examples:

      ratchet train export sft.jsonl --validation sft-val.jsonl

      ratchet train export pairs.jsonl --method dpo

      ratchet train export corrections.jsonl --from feedback --format trl
    """
    from ratchet.autopilot.training_data import objective_name, training_splits
    from ratchet.weights.export import FORMATS, write_examples, write_pairs
    from ratchet.weights.selection import Selected, TrainingSelection

    for option, value, choices in (
        ("--method", method, ("sft", "dpo")),
        ("--format", format, tuple(FORMATS)),
        ("--from", source, ("both", "rollouts", "feedback")),
    ):
        if value not in choices:
            raise InputError(f"{option} {value!r} is not one of {', '.join(choices)}.")
    for path in (file, validation):
        if path is not None and path.exists() and not force:
            raise InputError(f"{path} exists already.", hint="Replace it with --force.")
    if validation is not None and validation.resolve() == file.resolve():
        raise InputError(f"{file} is named twice.", hint="Validation data needs a separate file.")
    project = project_in(folder)
    selection = TrainingSelection(
        evaluator=evaluator or ("" if source == "feedback" else objective_name(project)),
        min_score=min_score,
        best=best,
        gap=gap,
        purpose=purpose,
        rollouts=source != "feedback",
        feedback=source != "rollouts",
        redacted=redacted,
    )
    with project.open_store() as store:
        selected = Selected(store, selection, training_splits(project))
        by_split: list[tuple[Any, Any]] = list(
            selected.examples() if method == "sft" else selected.pairs()
        )
    left_out = selected.left_out
    write: Any = write_examples if method == "sft" else write_pairs
    counts = {str(file): write(_of("train", by_split), file, format, left_out)}
    held_back = _of("val", by_split)
    if validation is not None:
        counts[str(validation)] = write(held_back, validation, format, left_out)
    elif held_back:
        left_out["its task is in the val split; see --validation"] += len(held_back)
    _report(counts, method, format, left_out, json)
    if not counts[str(file)]:
        raise InputError(
            "There is nothing to learn from, so no file was written.",
            hint="Lower --min-score or --gap, or run the agent on train tasks first: ratchet eval"
            " --split train.",
        )


def _of(split: str, examples: Iterable[tuple[str, Any]]) -> list[Any]:
    return [item for example_split, item in examples if example_split == split]


def _report(
    counts: dict[str, int], method: str, format: str, left_out: Counter[str], json: bool
) -> None:
    if json:
        print_json(
            {
                "files": [{"file": name, "rows": rows} for name, rows in counts.items()],
                "method": method,
                "format": format,
                "left_out": {reason: count for reason, count in left_out.items() if count},
            }
        )
        return
    for name, rows in counts.items():
        if rows:
            out.print(
                f"{display_path(name)}: {counted(rows, 'row')} for {method} as {format}",
                markup=False,
            )
    for reason, count in left_out.most_common():
        if count:
            out.print(f"  {count} left out: {reason}", markup=False, style="dim")
