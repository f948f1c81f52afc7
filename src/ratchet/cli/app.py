"""The commands, and how every one of them ends: a sentence and an exit code, never a traceback."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated

import typer

from ratchet._version import __version__
from ratchet.cli.failure import fail
from ratchet.types import RatchetError

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "demo"),
    "run": ("run_agent", "run"),
    "eval": ("evaluation", "evaluate"),
    "improve": ("improve", "improve"),
    "serve": ("serve", "serve"),
    "runner": ("runner", "runner"),
    "status": ("status", "status"),
    "show": ("show", "show"),
    "traces": ("traces", "traces"),
    "conversations": ("conversations", "conversations"),
    "feedback": ("feedback", "feedback"),
    "import": ("import_", "import_"),
    "candidates": ("candidates", "candidates"),
    "diff": ("diff", "diff"),
    "extract": ("extract", "extract"),
    "verify": ("verify", "verify"),
    "releases": ("releases", "releases"),
    "rollback": ("releases", "rollback"),
    "prune": ("prune", "prune"),
    "keys": ("keys", "keys"),
    "prompts": ("prompts", "prompts"),
}
"""Module and function by command, in the order of the help. Only what is asked for is imported.
In the place of a function may stand a group of commands."""

HELP = """Make an LLM agent better from its own use, and ship an improvement only when it is proved.

Start with: ratchet demo. In a project of your own: ratchet improve."""


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ratchet {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def make_app(commands: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command line with these commands."""
    app = typer.Typer(
        name="ratchet",
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_options)
    for command in commands:
        module, name = COMMANDS[command]
        found = getattr(import_module(f"ratchet.cli.{module}"), name)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=command)
        else:
            app.command(command)(found)
    return app


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """The command line with the command that is asked for, or with all when none is."""
    named = [argument for argument in arguments[:1] if argument in COMMANDS]
    return make_app(named or COMMANDS)


def run(arguments: Sequence[str], app: typer.Typer | None = None) -> int:
    """Run one command.

    Returns:
        The exit code; docs/exit-codes.md lists them.
    """
    try:
        (app or app_for(arguments))(args=list(arguments), prog_name="ratchet")
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
    where = f" {error.filename}" if error.filename else ""
    hint = {
        errno.ENOSPC: "The disk is full: free some space and run the same command again.",
        errno.EDQUOT: "The disk quota is used up: free some space and run the same command again.",
        errno.EACCES: "Check the permissions.",
        errno.EROFS: "The file system is read-only: work in a copy elsewhere.",
    }.get(error.errno or 0)
    fail(f"The system refused{where}: {error.strerror or error}.", hint)
    return 1
