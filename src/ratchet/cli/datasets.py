"""`ratchet datasets`: datasets in the store. Each command is in a file of its own."""

from __future__ import annotations

import typer

from ratchet.cli.dataset_capture import capture
from ratchet.cli.dataset_diff import diff
from ratchet.cli.dataset_export import export
from ratchet.cli.dataset_import import import_
from ratchet.cli.dataset_list import list_
from ratchet.cli.dataset_show import show
from ratchet.cli.dataset_split import split
from ratchet.cli.refine import refine
from ratchet.cli.synthesize import synthesize

datasets = typer.Typer(
    help="Capture, import, compare, refine, synthesize and export versioned datasets.",
    no_args_is_help=True,
)

datasets.command("list")(list_)
datasets.command("show")(show)
datasets.command("diff")(diff)
datasets.command("capture")(capture)
datasets.command("import")(import_)
datasets.command("export")(export)
datasets.command("split")(split)
datasets.command()(refine)
datasets.command()(synthesize)
