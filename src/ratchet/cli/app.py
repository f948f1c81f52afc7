"""The commands, and how every one of them ends: a sentence and an exit code, never a traceback."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, NamedTuple

import typer

from ratchet._version import __version__
from ratchet.cli.errors import fail
from ratchet.types import RatchetError


class Command(NamedTuple):
    """A command before it is imported."""

    module: str
    """Of `ratchet.cli`."""
    name: str
    """Of its function there, or of a group of commands."""
    summary: str
    """First paragraph of its help, for the list of commands."""


COMMANDS: dict[str, Command] = {
    "demo": Command(
        "demo",
        "demo",
        "Watch a real agent get better, from baseline to git branch. No API key, no network.",
    ),
    "run": Command(
        "run_agent",
        "run",
        "Run the agent on an input of yours, on one task, or on some tasks of a split.",
    ),
    "eval": Command(
        "evaluation",
        "evaluate",
        "Run the agent on a split and show the mean score of each evaluator.",
    ),
    "improve": Command(
        "improve",
        "improve",
        "Learn a better candidate, prove it on held-out tasks, and ship it as a branch.",
    ),
    "serve": Command(
        "serve",
        "serve",
        "Serve the API, the gateway and OTLP ingest on one port, until Ctrl-C or SIGTERM.",
    ),
    "runner": Command(
        "runner", "runner", "Run rollouts of a server's queue, until Ctrl-C or SIGTERM."
    ),
    "status": Command(
        "status",
        "status",
        "Show what is in the store, how the newest run stands, and what to do next.",
    ),
    "show": Command(
        "show",
        "show",
        "Show a trace, conversation, rollout, run, candidate, experiment or release by its id.",
    ),
    "traces": Command("traces", "traces", "List what agents did live, newest first."),
    "conversations": Command(
        "conversations",
        "conversations",
        "List conversations, those first that went on last; ratchet show ID reads one.",
    ),
    "feedback": Command("feedback", "feedback", "Say how good something was that an agent did."),
    "import": Command(
        "import_",
        "import_",
        "Take in traces, conversations and judged trajectories that lie in files.",
    ),
    "candidates": Command(
        "candidates",
        "candidates",
        "Show the candidates of a run: which came from which, their scores, and why each was kept.",
    ),
    "diff": Command(
        "diff",
        "diff",
        "Show what changes from one candidate to another: prompts word by word, code by lines.",
    ),
    "extract": Command(
        "extract",
        "extract",
        "Stage a function with the closure of what it needs, so that it runs alone.",
    ),
    "verify": Command(
        "verify", "verify", "Recompute every number of an evidence file, bit for bit."
    ),
    "releases": Command(
        "releases", "releases", "List the releases, with what became of each in the repository."
    ),
    "rollback": Command(
        "releases",
        "rollback",
        "Undo a release: delete its branch, or make a branch that reverts it once it is merged.",
    ),
    "prune": Command(
        "prune",
        "prune",
        "Delete what is older than retention in ratchet.toml says, and nothing that is needed.",
    ),
    "keys": Command(
        "keys", "keys", "Make, list and revoke the keys that servers of a store ask for."
    ),
    "prompts": Command(
        "prompts",
        "prompts",
        "Find the prompts of an agent whose code is not changed, and have them replaced.",
    ),
}
"""The commands in the order of the help. Only the one that is asked for is imported."""

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


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """The command line, with the command that is asked for imported and the others listed."""
    asked = next((argument for argument in arguments if not argument.startswith("-")), None)
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
    for command, (module, name, summary) in COMMANDS.items():
        if command != asked:
            app.command(command, help=summary)(_unasked)
            continue
        found = getattr(import_module(f"ratchet.cli.{module}"), name)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=command)
        else:
            app.command(command)(found)
    return app


def _unasked() -> None:
    raise AssertionError("A command that was not asked for has no function.")


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
