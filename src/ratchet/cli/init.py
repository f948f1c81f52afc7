"""`ratchet init`: watches one run of an agent, wires it, verifies the wiring, and takes it back."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ratchet.cli.console import Json, out, print_json
from ratchet.types import InputError

if TYPE_CHECKING:
    from ratchet.wire.recording.recording import CommandRun, ServiceRun

BRANCH = "ratchet/init"
MAX_COMMANDS = 8
"""Maximum number of commands that are offered."""


def init(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND…]",
            help="The command that runs the agent today, with one real input.",
        ),
    ] = None,
    folder: Annotated[
        Path, typer.Option("--in", metavar="FOLDER", help="Folder of the project.")
    ] = Path("."),
    serve: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="The command that starts the service.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="URL where the service takes requests.")] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="BODY", help="Body of one real request: JSON, or a form, NAME=VALUE&…"
        ),
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="HTTP method; POST, or GET without --data.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'NAME: VALUE'",
            help="A header of the request; $NAME in it stands for a variable, such as a key. "
            "Repeatable.",
        ),
    ] = None,
    stdin: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Text for the command's standard input.")
    ] = None,
    task_input: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="TEXT",
            help="The value that is the task's input, if several could be; or the file that holds "
            "the input.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT", help="A host, program or folder that rollouts may use; repeatable."
        ),
    ] = None,
    simulated: Annotated[
        bool,
        typer.Option("--simulated", help="Let a simulated model answer, and contain the run."),
    ] = False,
    declare: Annotated[
        bool,
        typer.Option(
            "--declare",
            help="Also declare the recorded prompts in the source, verified byte for byte.",
        ),
    ] = False,
    no_tests: Annotated[
        bool, typer.Option("--no-tests", help="Do not run the project's own tests.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Ask no questions; accept the proposals.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Record and show what would be written.")
    ] = False,
    branch: Annotated[str, typer.Option(help="Name of the new branch.")] = BRANCH,
    no_git: Annotated[
        bool, typer.Option("--no-git", help="Write in place, without a branch or a commit.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time limit of the recorded run, in seconds.")
    ] = 600.0,
    look: Annotated[
        bool, typer.Option("--look", help="Only report what is in the repository; run nothing.")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Undo what ratchet init wrote; your edits are kept.")
    ] = False,
    json: Json = False,
) -> None:
    """Wire an agent by watching it run once.

    Runs the command as it is, with one real input, and watches: its model calls with their prompts,
    the functions around them, and what it contacts, writes and starts. From that it derives
    ratchet.toml and a task file, runs the same input again as wired and contained, runs the
    project's tests without and with the wiring, and commits on a branch of its own. The source
    stays as it is, unless --declare is given.

    Examples:

      ratchet init -- python -m support "Where is my order 4711?"

      ratchet init --stdin "Where is my order 4711?" -- python chat.py

      ratchet init --serve "npm start" --url http://127.0.0.1:3000/chat --data '{"question": "Hi"}'

      ratchet init --simulated -- python -m support "Where is my order 4711?"

      ratchet init --declare -- python -m support "Where is my order 4711?"

      ratchet init --look

      ratchet init --undo
    """
    root = folder.resolve()
    if not root.is_dir():
        raise InputError(f"There is no folder {folder}.")
    if look or undo:
        _look_or_undo(_folder_of(root, command), undo=undo, dry_run=dry_run, json=json)
        return
    from ratchet.cli.init_run import InitOptions, wire_by_watching

    run = _run_of(
        root,
        command,
        serve=serve,
        url=url,
        data=data,
        method=method,
        headers=_headers(root, header or ()),
        stdin=stdin,
        asks=not (yes or json),
    )
    _check_secrets(run)
    options = InitOptions(
        inputs=tuple(task_input or ()),
        allowed=tuple(allow or ()),
        simulated=simulated,
        declare=declare,
        tests=not no_tests,
        asks=not (yes or json) and sys.stdin.isatty(),
        dry_run=dry_run,
        branch=None if no_git else branch,
        timeout_s=timeout,
    )
    wire_by_watching(root, run, options, json=json)


def _folder_of(root: Path, words: Sequence[str] | None) -> Path:
    """The folder that --look and --undo are for: `ratchet init --look ../agent` names it too."""
    if not words:
        return root
    if len(words) > 1 or not (root / words[0]).is_dir():
        raise InputError(
            f"--look and --undo do not run a command: {shlex.join(words)}",
            hint="Omit the command; to name another folder, use --in FOLDER.",
        )
    return (root / words[0]).resolve()


def _look_or_undo(root: Path, *, undo: bool, dry_run: bool, json: bool) -> None:
    if undo:
        from ratchet.cli.init_undo import undo_wiring

        undo_wiring(root, dry_run=dry_run, json=json)
        return
    from ratchet.cli.init_look import print_look
    from ratchet.wire.looking import look

    inventory = look(root)
    if json:
        print_json(inventory)
    else:
        print_look(inventory)


def _run_of(
    root: Path,
    command: Sequence[str] | None,
    *,
    serve: str | None,
    url: str | None,
    data: str | None,
    method: str | None,
    headers: Mapping[str, str],
    stdin: str | None,
    asks: bool,
) -> CommandRun | ServiceRun:
    """What to record, from the options or by asking the person."""
    from ratchet.wire.recording.recording import CommandRun, ServiceRun

    if url or serve or data or headers:
        if not url or command:
            raise InputError(
                "For a service, give --url, and give its command with --serve instead of after --.",
                hint='ratchet init --serve "npm start" --url http://127.0.0.1:3000/chat'
                ' --data \'{"question": "…"}\'',
            )
        words = _words(serve) if serve else ()
        # Without a body the request only asks, with the input in the URL's query.
        usual = "GET" if data is None else "POST"
        if not url.startswith(("http://", "https://")):
            raise InputError(
                f"--url {url}: tasks are sent over HTTP, but this is not an HTTP URL.",
                hint="Give an HTTP endpoint of the service, or wire the function or command "
                "behind it: ratchet init -- COMMAND",
            )
        run = ServiceRun(
            url=url,
            data=data or "",
            serve=words,
            method=(method or usual).upper(),
            headers=headers,
        )
        if run.form and len(run.form) != run.data.count("&") + 1:
            raise InputError(
                "--data is a form that names a field twice; each field can be given once.",
                hint="Give one value for each field, or a JSON body.",
            )
        return run
    words = tuple(command or ())
    if not words:
        words = _asked(root) if asks and sys.stdin.isatty() else ()
    if not words:
        raise InputError(
            "ratchet init needs the command that runs the agent today, with one real input."
            + _candidates(root),
            hint='For example: ratchet init -- python -m support "Where is my order 4711?"; '
            "for a service, ratchet init --serve COMMAND --url URL --data BODY.",
        )
    return CommandRun(argv=words, stdin=None if stdin is None else _whole_line(stdin))


def _headers(root: Path, texts: Sequence[str]) -> dict[str, str]:
    from ratchet.run.request_headers import filled_headers, header_of
    from ratchet.source.dotenv import read_dotenv

    owner = {**read_dotenv(root), **os.environ}
    headers = dict(header_of(text, owner) for text in texts)
    filled_headers(headers, owner)  # a variable that is not set is told before anything runs
    return headers


def _asked(root: Path) -> tuple[str, ...]:
    """Ask the person at the terminal for the command."""
    out.print(
        "Which command runs the agent today, with one real input?" + _candidates(root),
        markup=False,
    )
    return _words(typer.prompt("Command"))


def _candidates(root: Path) -> str:
    """Commands found in the repository's files, as a paragraph; empty if there are none."""
    from ratchet.wire.looking import look

    commands = look(root).commands
    if not commands:
        return ""
    lines = [
        f"  {candidate.command}   ({candidate.place})" for candidate in commands[:MAX_COMMANDS]
    ]
    if len(commands) > MAX_COMMANDS:
        lines.append(f"  and {len(commands) - MAX_COMMANDS} more: ratchet init --look")
    folders = {candidate.folder for candidate in commands} - {"."}
    if len(folders) > 1:
        lines.append(
            "Name the folder of the one that you mean: ratchet init --in FOLDER -- COMMAND"
        )
    return "\nCommands found in its files:\n" + "\n".join(lines) + "\n"


def _words(line: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise InputError(f"The command {line!r} cannot be read: {error}.") from None


def _whole_line(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _check_secrets(run: CommandRun | ServiceRun) -> None:
    """Refuse a command with a secret in it: it is written to files that are committed.

    Raises:
        InputError: A word, the standard input, the URL or the body holds one.
    """
    from ratchet.observe.redaction import RedactionRules, Redactor
    from ratchet.wire.recording.recording import CommandRun

    redactor = Redactor(RedactionRules(rules=("credentials", "key", "assignment")))
    if isinstance(run, CommandRun):
        texts = {f"word {number}": word for number, word in enumerate(run.argv, 1)}
        texts["the standard input"] = run.stdin or ""
    else:
        texts = {f"word {number} of --serve": word for number, word in enumerate(run.serve, 1)}
        texts |= {"--url": run.url, "--data": run.data}
        headers = {name: value for name, value in run.headers.items() if "$" not in value}
        texts |= {f"--header {name}": f"{name}: {value}" for name, value in headers.items()}
    places = [name for name, text in texts.items() if redactor.removed(text)]
    if places:
        raise InputError(
            f"There is a secret in {' and '.join(places)}. It would be written to ratchet.toml.",
            hint="Pass it to the agent in an environment variable, and leave it out of the "
            "command.",
        )
