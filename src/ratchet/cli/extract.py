"""`ratchet extract`: stage a function with everything it needs, so that it runs on its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ratchet.autopilot import Config, read_config
from ratchet.cli.console import Folder, Json, display_path, out, print_json, printable
from ratchet.observe.project_paths import FILE_NAME, folder_with_config
from ratchet.source import SourceTree
from ratchet.source.staging import StagedFunction, UndecoratedTree, stage
from ratchet.source.targets import target_named, targets_in
from ratchet.types import InputError
from ratchet.types.wording import counted

LOAD_TIMEOUT_S = 60.0
"""Timeout for loading a staged function, in seconds."""


def extract(
    target: Annotated[
        str | None,
        typer.Argument(
            help="A function marked to evolve, or MODULE:FUNCTION; by default all marked functions."
        ),
    ] = None,
    folder: Folder = Path("."),
    to: Annotated[
        Path | None, typer.Option("--out", help="Output folder; by default .ratchet/extract.")
    ] = None,
    check: Annotated[
        bool, typer.Option(help="Check that the staged function loads on its own.")
    ] = True,
    json: Json = False,
) -> None:
    """Copy a function with everything it needs into a folder, so that it can run on its own.

    Works in any folder of Python sources; a ratchet.toml is not needed.

    Examples:

      ratchet extract rank

      ratchet extract my_agent.ranking:score --out staged
    """
    root = folder_with_config(folder) or folder.resolve()
    config = read_config(root / FILE_NAME) if (root / FILE_NAME).is_file() else None
    whole_tree = SourceTree(root, _path(config))
    functions = [target_named(whole_tree, target)] if target else targets_in(whole_tree)
    tree = UndecoratedTree(root, _path(config))
    if not functions:
        raise InputError(
            f"No function in {root} is marked to evolve.",
            hint="Mark a function with @ratchet.evolve, or name one as MODULE:FUNCTION.",
        )
    base = to.resolve() if to else root / ".ratchet" / "extract"
    private = [root / config.tasks.file] if config else [root / "tasks.jsonl"]
    results: list[dict[str, Any]] = []
    for function in functions:
        own = base if target and to else base / function.name
        staged = stage(tree, function, own, private=private)
        fault = _fault(staged) if check else ""
        if fault:
            # Often modules that import one another in a cycle, which pruning has cut elsewhere.
            staged = stage(tree, function, own, private=private, whole_modules=True)
            if _fault(staged):
                staged = stage(tree, function, own, private=private)
            else:
                fault = ""
        results.append(_described(staged, fault if check else None))
        if not json:
            _print(staged, fault if check else None)
    if json:
        print_json({"targets": results})
    if any(result["loads"] is False for result in results):
        raise typer.Exit(1)


def _path(config: Config | None) -> Sequence[str]:
    return tuple(dict.fromkeys((*config.agent.path, ".", "src"))) if config else (".", "src")


def _fault(staged: StagedFunction) -> str:
    """Why the staged function does not load on its own; empty when it does."""
    try:
        completed = subprocess.run(
            [sys.executable, "-P", "run.py", "--check"],
            cwd=staged.folder,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=LOAD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it did not load within {LOAD_TIMEOUT_S:g} s"
    last = completed.stderr.strip().splitlines()[-1:] or [f"exit code {completed.returncode}"]
    return "" if completed.returncode == 0 else printable(last[0])


def _described(staged: StagedFunction, fault: str | None) -> dict[str, Any]:
    return {
        "name": staged.name,
        "function": staged.function,
        "folder": str(staged.folder),
        "files": list(staged.files),
        "data": list(staged.data),
        "packages": staged.packages,
        "left_out": [{"what": omission.what, "why": omission.why} for omission in staged.left_out],
        "lines": staged.lines,
        "lines_before": staged.lines_before,
        "command": staged.command,
        "loads": None if fault is None else not fault,
        "fault": fault or "",
    }


def _print(staged: StagedFunction, fault: str | None) -> None:
    def say(text: str, style: str | None = None) -> None:
        out.print(text, style=style, markup=False)

    say(f"{staged.function} → {display_path(staged.folder)}", "bold")
    files = counted(len(staged.files), "file")
    say(
        f"  {counted(staged.lines, 'line')} of {staged.lines_before}, in {files}:"
        f" {', '.join(staged.files)}"
    )
    if staged.data:
        say(f"  data: {', '.join(staged.data)}")
    for name, version in staged.packages.items():
        say(f"  needs {name} {version or '(not installed)'}")
    for omission in staged.left_out:
        say(f"  omitted: {omission.what}: {omission.why}", "yellow")
    if fault:
        say(f"  The extracted function does not load on its own: {fault}", "red")
    elif fault is not None:
        say("  The extracted function loads on its own.", "green")
    say(f"  Run it with: cd {display_path(staged.folder)} && {staged.command}")
