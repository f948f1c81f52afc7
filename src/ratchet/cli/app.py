"""The commands, and how every one of them ends: a sentence and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from ratchet._version import __version__
from ratchet.cli import (
    demo,
    diff,
    evaluation,
    improve,
    releases,
    run_agent,
    show,
    status,
    verify,
)
from ratchet.cli.console import fail
from ratchet.types import RatchetError

app = typer.Typer(
    name="ratchet",
    help=(
        "Make an LLM agent better from its own use, and ship an improvement only when it is proved."
        "\n\nStart with: ratchet demo. In a project of your own: ratchet improve."
    ),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ratchet {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


app.command("demo")(demo.demo)
app.command("run")(run_agent.run)
app.command("eval")(evaluation.evaluate)
app.command("improve")(improve.improve)
app.command("status")(status.status)
app.command("show")(show.show)
app.command("diff")(diff.diff)
app.command("verify")(verify.verify)
app.command("releases")(releases.releases)
app.command("rollback")(releases.rollback)


def run(arguments: Sequence[str]) -> int:
    """Run one command.

    Returns:
        The exit code; docs/exit-codes.md lists them.
    """
    try:
        app(args=list(arguments), prog_name="ratchet")
    except SystemExit as end:  # how typer ends, after usage errors too
        return end.code if isinstance(end.code, int) else 1
    except RatchetError as error:
        fail(error.message, error.hint)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has gone; a flush at exit must not complain of it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _system(error)
    return 0


def _system(error: OSError) -> int:
    import errno

    where = f" {error.filename}" if error.filename else ""
    hint = {
        errno.ENOSPC: "The disk is full: free some space and run the same command again.",
        errno.EDQUOT: "The disk quota is used up: free some space and run the same command again.",
        errno.EACCES: "Check the permissions.",
        errno.EROFS: "The file system is read-only: work in a copy elsewhere.",
    }.get(error.errno or 0)
    fail(f"The system refused{where}: {error.strerror or error}.", hint)
    return 1
