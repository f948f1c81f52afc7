"""`ratchet config`: single settings of `ratchet.toml`, read and changed as on the dashboard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ratchet.autopilot.project_settings import SettingChange, change_setting, read_settings
from ratchet.cli.console import Folder, Json, out, print_json, print_table, project_in, table
from ratchet.observe.project_paths import FILE_NAME

config = typer.Typer(
    help="List and change budgets, policy, retention and redaction in ratchet.toml.",
    no_args_is_help=True,
)

Key = Annotated[
    str,
    typer.Argument(help="With its section, such as improve.budget.rollouts.", show_default=False),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show how the file would change.")]


@config.command("list")
def list_(
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that are changed in the file only.")
    ] = False,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """List the settings that can be changed here, with their values.

    Examples:

      ratchet config list

      ratchet config list --all
    """
    settings = read_settings(project_in(folder).root / FILE_NAME)
    if json:
        print_json(settings)
        return
    rows = table("setting", "value", "set", "about", *(["changed"] if everything else []))
    for section in settings.sections:
        for setting in section.settings:
            if everything or not setting.fixed:
                more = [setting.fixed or "here"] if everything else []
                mark = "yes" if setting.is_set else ""
                name = f"{section.name}.{setting.name}"
                rows.add_row(name, _said(setting.value), mark, setting.about, *more)
    print_table(rows)


@config.command("set")
def set_(
    key: Key,
    value: Annotated[str, typer.Argument(help="The value; a text needs no quotes.")],
    dry_run: DryRun = False,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Change one setting in ratchet.toml; comments and all other lines stay.

    What runs code, names a file or an address, or says who may do what is changed in an editor.

    Examples:

      ratchet config set improve.budget.rollouts 500

      ratchet config set autopilot.mode canary --dry-run
    """
    root = project_in(folder).root
    _print(change_setting(root, key, value, write=not dry_run), json)


@config.command()
def unset(
    key: Key, dry_run: DryRun = False, folder: Folder = Path("."), json: Json = False
) -> None:
    """Take one setting out of ratchet.toml, so that its default holds.

    Examples:

      ratchet config unset retention.spans_days
    """
    root = project_in(folder).root
    _print(change_setting(root, key, None, write=not dry_run), json)


def _said(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return str(value) or "none"


def _print(change: SettingChange, json: bool) -> None:
    if json:
        print_json(change)
        return
    verb = "changed" if change.written else "would change"
    out.print(f"{FILE_NAME} {verb} at line {change.line}:", highlight=False)
    for line in change.diff:
        out.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
    out.print(change.follows, markup=False, highlight=False, soft_wrap=True)
    if not change.written:
        return
    action = "unset" if change.before is None else "set"
    back = " ".join(filter(None, ("ratchet config", action, change.key, change.before)))
    out.print(f"To take it back: {back}", markup=False, highlight=False, soft_wrap=True)
