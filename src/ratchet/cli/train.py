"""`ratchet train`: the weights of an agent's model. Each command is in a file of its own."""

from __future__ import annotations

import typer

from ratchet.cli.train_doctor import doctor
from ratchet.cli.train_export import export
from ratchet.cli.train_hosted import cancel, jobs, start, watch
from ratchet.cli.train_runs import runs

train = typer.Typer(
    help="Show training runs, export training data, and train on a hosted service.",
    no_args_is_help=True,
)

train.command()(export)
train.command()(start)
train.command()(watch)
train.command()(cancel)
train.command()(jobs)
train.command()(runs)
train.command()(doctor)
