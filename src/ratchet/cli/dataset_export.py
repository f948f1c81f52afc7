"""`ratchet datasets export`: write a dataset to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ratchet.cli.console import Folder, Json, display_path, out, print_json
from ratchet.cli.dataset_options import DatasetVersionName, versioned
from ratchet.cli.keys import StoreUrl, open_store
from ratchet.curate.files import format_of_file, write_dataset_file
from ratchet.types import InputError
from ratchet.types.wording import counted


def export(
    name: DatasetVersionName,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write, or a folder.")],
    format: Annotated[
        str | None,
        typer.Option(
            help="jsonl, json, csv, parquet or huggingface; by default from the file's extension."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    folder: Folder = Path("."),
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Export a dataset with its splits and the origin of every task.

    What is exported is imported again as it was. The format huggingface writes a folder that
    datasets.load_dataset reads.

    Examples:

      ratchet datasets export support support.jsonl

      ratchet datasets export support@1a2b3c4d support.parquet

      ratchet datasets export support ./support --format huggingface
    """
    file_format = format_of_file(file, format)
    if file.exists() and not force:
        raise InputError(f"{file} exists already.", hint="Replace it with --force.")
    with open_store(folder, store) as opened:
        dataset = opened.datasets.named(name)
    write_dataset_file(dataset, file, format)
    if json:
        print_json(
            {
                "name": dataset.name,
                "version": dataset.version,
                "tasks": len(dataset.tasks),
                "file": str(file),
                "format": file_format,
            }
        )
        return
    out.print(
        f"{versioned(dataset)}: {counted(len(dataset.tasks), 'task')} written to"
        f" {display_path(file)} as {file_format}",
        markup=False,
    )
