"""The commands and how they exit: an error is a sentence and an exit code, never a traceback."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, NamedTuple

import typer

from ratchet._command_answer import INTERRUPTED
from ratchet._version import __version__
from ratchet.cli.errors import TELLER, fail
from ratchet.cli.library_logs import silence_libraries
from ratchet.types import RatchetError


class Command(NamedTuple):
    """A command that is not imported yet."""

    module: str
    """Name of its module in `ratchet.cli`."""
    name: str
    """Name of its function, or of its command group, in that module."""
    summary: str
    """First paragraph of its help, for the list of commands."""


COMMANDS: dict[str, Command] = {
    "demo": Command(
        "demo",
        "demo",
        "Improve an example agent, from baseline to git branch. No API key, no network.",
    ),
    "init": Command(
        "init",
        "init",
        "Wire an agent by watching it run once.",
    ),
    "run": Command(
        "run_agent",
        "run",
        "Run the agent on an input, on one task, or on some tasks of a split.",
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
    "migrate": Command(
        "migrate",
        "migrate",
        "Move the agent to another model once it is proved no worse.",
    ),
    "autopilot": Command(
        "autopilot",
        "autopilot",
        "Run the loop unattended: watch, learn, prove, ship, watch again.",
    ),
    "serve": Command(
        "serve",
        "serve",
        "Serve the dashboard, API, gateway and OTLP ingest on one port, until Ctrl-C or SIGTERM.",
    ),
    "runner": Command(
        "runner", "runner", "Run rollouts of a server's queue, until Ctrl-C or SIGTERM."
    ),
    "model": Command(
        "model",
        "model",
        "Serve a language model on this machine with the OpenAI API, until Ctrl-C or SIGTERM.",
    ),
    "doctor": Command(
        "doctor",
        "doctor",
        "Check that ratchet.toml fits the project, prompts are declared, and no model is retired.",
    ),
    "mcp": Command(
        "mcp",
        "mcp",
        "Serve Ratchet's functions to coding agents, over the Model Context Protocol on stdio.",
    ),
    "status": Command(
        "status",
        "status",
        "Show the store's contents, the state of the newest run, and what to do next.",
    ),
    "show": Command(
        "show",
        "show",
        "Show a trace, conversation, rollout, run, candidate, experiment or release by id.",
    ),
    "problems": Command(
        "problems",
        "problems",
        "Find the agent's problems in live traffic, worst first.",
    ),
    "traces": Command("traces", "traces", "List traces of live traffic, newest first."),
    "conversations": Command(
        "conversations",
        "conversations",
        "List conversations, most recently active first; ratchet show ID prints one.",
    ),
    "feedback": Command(
        "feedback", "feedback", "Give feedback on a trace, a conversation or a rollout."
    ),
    "evaluators": Command(
        "evaluators",
        "evaluators",
        "List evaluators, and measure how much each can be trusted.",
    ),
    "label": Command(
        "label",
        "label",
        "Label outputs as right or wrong, most informative first.",
    ),
    "align": Command(
        "align",
        "align",
        "Align a judge with people's labels, and show the agreement before and after.",
    ),
    "import": Command(
        "import_",
        "import_",
        "Import traces, conversations and scored trajectories from files.",
    ),
    "datasets": Command(
        "datasets",
        "datasets",
        "Capture, import, compare, refine, synthesize and export versioned datasets.",
    ),
    "frozen": Command(
        "frozen",
        "frozen",
        "Show the tasks that keep fixed problems fixed, and correct their answers.",
    ),
    "train": Command(
        "train",
        "train",
        "Show training runs, export training data, and train on a hosted service.",
    ),
    "candidates": Command(
        "candidates",
        "candidates",
        "Show the candidates of a run: their ancestry, scores, and why each was kept.",
    ),
    "diff": Command(
        "diff",
        "diff",
        "Compare two candidates: prompts word by word, code line by line.",
    ),
    "extract": Command(
        "extract",
        "extract",
        "Copy a function with everything it needs into a folder, so that it can run on its own.",
    ),
    "explain": Command(
        "explain",
        "explain",
        "Explain a decision, a run or a cycle of the autopilot in plain words.",
    ),
    "report": Command(
        "report",
        "report",
        "Write a run as an HTML file: the decision, its evidence, and what changed.",
    ),
    "verify": Command(
        "verify", "verify", "Recompute every number of an evidence file, bit for bit."
    ),
    "ship": Command(
        "ship",
        "ship",
        "Push a release's branch, and open its pull request on GitHub or GitLab.",
    ),
    "releases": Command(
        "releases",
        "releases",
        "List the releases and their state in the repository and on the forge.",
    ),
    "rollback": Command(
        "releases",
        "rollback",
        "Undo a release: delete its branch, or, if it was merged, make a branch that reverts it.",
    ),
    "config": Command(
        "config",
        "config",
        "List budgets, policy, retention and redaction, from ratchet.toml or its defaults.",
    ),
    "prune": Command(
        "prune",
        "prune",
        "Delete data older than retention in ratchet.toml allows, unless it is still needed.",
    ),
    "keys": Command("keys", "keys", "Create, list and revoke API keys for the servers of a store."),
    "prompts": Command(
        "prompts",
        "prompts",
        "Find an agent's prompts in its recorded calls, and replace them through the gateway.",
    ),
}
"""Commands in help order. Only the requested one is imported."""

HELP = """Improve an LLM agent from its own traffic, and ship a change only if proved better.

Start with: ratchet demo. In your own project: ratchet init -- COMMAND, then ratchet improve."""


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"ratchet {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """Build the command line: the requested command imported, the others only listed."""
    requested = next((argument for argument in arguments if not argument.startswith("-")), None)
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
        if command != requested:
            app.command(command, help=summary)(_unasked)
            continue
        implementation = getattr(import_module(f"ratchet.cli.{module}"), name)
        if isinstance(implementation, typer.Typer):
            app.add_typer(implementation, name=command)
        else:
            app.command(command)(implementation)
    return app


def _unasked() -> None:
    raise AssertionError("A command that was not requested has no function.")


def run(arguments: Sequence[str], app: typer.Typer | None = None) -> int:
    """Run one command.

    Returns:
        The exit code; docs/exit-codes.md lists them.
    """
    silence_libraries()
    try:
        (app or app_for(arguments))(args=list(arguments), prog_name="ratchet")
    except SystemExit as end:  # typer exits this way, also after usage errors
        if end.code == INTERRUPTED and TELLER is not None:
            TELLER.error("Interrupted.", None, INTERRUPTED)
        return end.code if isinstance(end.code, int) else 1
    except RatchetError as error:
        fail(error.message, error.hint, error.exit_code)
        return error.exit_code
    except BrokenPipeError:
        # The reader of stdout is gone; the flush at exit must not raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _system(error)
    except Exception as error:
        if TELLER is not None:  # what is printed may be read by nobody
            what = f"Ratchet itself failed: {type(error).__name__}: {error}"
            TELLER.error(what, "Please report it with the steps that led to it.", 1)
        raise
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
