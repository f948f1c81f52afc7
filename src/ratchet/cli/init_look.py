"""Prints the findings of `ratchet init --look`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.text import Text

from ratchet.cli.console import one_line, out, table
from ratchet.types.wording import counted

if TYPE_CHECKING:
    from ratchet.wire.looking import Inventory

MAX_ROWS_SHOWN = 25
"""Rows shown of a table; --json has all."""
NOTE = "Files were read; nothing was run. Only a recorded run shows what the agent does."


def print_look(inventory: Inventory) -> None:
    """Print the inventory of a repository."""
    languages = ", ".join(f"{share.name} ({share.files})" for share in inventory.languages)
    _say(
        f"{inventory.root}: {counted(inventory.files, 'file')}; {languages or 'no known language'}"
    )
    _say(NOTE)
    if not inventory.git:
        _say("It is not a git repository.")
    _rows(
        "Frameworks",
        ("place", "name", "where"),
        (
            (
                str(framework.place),
                framework.name,
                f"imported by {counted(framework.imported, 'file')}"
                if framework.imported
                else "declared, but never imported",
            )
            for framework in inventory.frameworks
        ),
        "No known framework or SDK is declared or imported.",
    )
    if len(inventory.projects) > 1:
        _rows(
            "Projects",
            ("folder", "frameworks", "manifests"),
            (
                (project.folder, ", ".join(project.frameworks), ", ".join(project.manifests))
                for project in inventory.projects
            ),
        )
    _rows(
        "Commands that may start the agent; choose the one you use",
        ("place", "command", "in"),
        ((str(command.place), command.command, command.folder) for command in inventory.commands),
        "No command was found.",
    )
    _rows(
        "Tests",
        ("place", "command", "what it runs"),
        (
            (
                str(tests.place),
                tests.command,
                f"in {tests.folder}: {counted(tests.cases, 'test')} in"
                f" {counted(tests.files, 'file')}",
            )
            for tests in inventory.tests
        ),
        "No tests.",
    )
    _rows(
        "Data files",
        ("file", "rows", "columns"),
        (
            (data.path, f"{data.rows}{'' if data.whole else '+'}", ", ".join(data.columns))
            for data in inventory.data_files
        ),
    )
    _rows(
        "Texts that read like prompts",
        ("place", "name", "text"),
        ((str(prompt.place), prompt.name, prompt.text) for prompt in inventory.prompts),
        "No text reads like a prompt.",
    )
    if inventory.secret:
        _say("\nNot opened, since their names suggest secrets:")
        _say("  " + ", ".join(inventory.secret))
    for passed in inventory.passed_over[:MAX_ROWS_SHOWN]:
        _say(f"Skipped {passed.path}: {passed.reason}.")
    _say("\nNext: ratchet init -- COMMAND, with the command you run today and one real input.")


def _say(text: str) -> None:
    out.print(text, markup=False)


def _rows(
    title: str, columns: tuple[str, str, str], rows: Iterable[tuple[str, str, str]], none: str = ""
) -> None:
    listed = list(rows)
    if not listed:
        if none:
            _say(f"\n{none}")
        return
    out.print(f"\n[bold]{title}[/]")
    listing = table(*columns)
    for row in listed[:MAX_ROWS_SHOWN]:
        listing.add_row(*(Text(one_line(cell, 100)) for cell in row))
    out.print(listing)
    if len(listed) > MAX_ROWS_SHOWN:
        _say(f"and {len(listed) - MAX_ROWS_SHOWN} more; --json has all.")
