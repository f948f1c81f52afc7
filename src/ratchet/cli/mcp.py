"""`ratchet mcp`: a server for coding agents, and its entry in their configuration."""

from __future__ import annotations

import json as jsonlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from ratchet.cli.console import out
from ratchet.types import ConfigError, InputError

CONFIG_NAME = ".mcp.json"
"""The file in a project in which several assistants look up their MCP servers."""


def mcp(
    folder: Annotated[
        Path,
        typer.Option("--project", "-C", help="Folder to work in; nothing outside it is touched."),
    ] = Path("."),
    http: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve over HTTP on this local port; 0 picks a free one.",
        ),
    ] = None,
    config: Annotated[
        bool, typer.Option("--config", help="Print the entry for an assistant's configuration.")
    ] = False,
    install: Annotated[
        bool, typer.Option("--install", help=f"Add the entry to {CONFIG_NAME} in the folder.")
    ] = False,
    uninstall: Annotated[
        bool, typer.Option("--uninstall", help=f"Remove the entry from {CONFIG_NAME}.")
    ] = False,
    skill: Annotated[
        bool,
        typer.Option(
            "--skill", help="Print the skill file, which tells an assistant how to wire an agent."
        ),
    ] = False,
) -> None:
    """Serve Ratchet's functions to coding agents, over the Model Context Protocol on stdio.

    An assistant starts it by itself, once its configuration has the entry. Needs the extra:
    pip install 'agent-ratchet\\[mcp]'. With --http it is started by hand, for assistants
    that connect to an address; the one that it prints holds a secret, so keep it to yourself.

    Examples:

      ratchet mcp --config

      ratchet mcp --install

      ratchet mcp --http 8765

      ratchet mcp --skill > .claude/skills/ratchet/SKILL.md
    """
    if sum((config, install, uninstall, skill, http is not None)) > 1:
        raise InputError("Give only one of --http, --config, --install, --uninstall and --skill.")
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder.")
    if skill:
        from ratchet.cli.mcp_skill import skill_text

        sys.stdout.write(skill_text())
    elif config:
        out.print(jsonlib.dumps({"mcpServers": {"ratchet": _entry()}}, indent=2), markup=False)
    elif install:
        _install(folder / CONFIG_NAME)
    elif uninstall:
        _uninstall(folder / CONFIG_NAME)
    else:
        _serve(folder, http)


def _serve(folder: Path, http: int | None) -> None:
    if find_spec("mcp") is None:
        raise ConfigError(
            "ratchet mcp needs the package mcp.",
            hint="Install it: pip install 'agent-ratchet[mcp]'",
        )
    from ratchet.cli.mcp_server import make_server

    os.chdir(folder)
    server = make_server(Path.cwd())
    if http is None:
        server.run("stdio")
    else:
        from ratchet.cli.mcp_http import serve_http

        serve_http(server, http)


def _entry() -> dict[str, Any]:
    """How an assistant starts the server: from this installation, in the folder it has open.

    With -P no module of that folder is imported in place of one of Python's or Ratchet's.
    """
    return {"command": sys.executable, "args": ["-P", "-m", "ratchet", "mcp"]}


def _install(file: Path) -> None:
    settings = _read(file)
    servers = settings.setdefault("mcpServers", {})
    if servers.get("ratchet") == _entry():
        out.print(f"{file} already has the entry.", markup=False)
        return
    if "ratchet" in servers:
        raise InputError(
            f"{file} has a different entry named ratchet, which is not overwritten.",
            hint="Remove it first: ratchet mcp --uninstall",
        )
    servers["ratchet"] = _entry()
    _write(file, settings)
    out.print(f"Added ratchet to {file}. To remove it: ratchet mcp --uninstall", markup=False)


def _uninstall(file: Path) -> None:
    settings = _read(file)
    if "ratchet" not in settings.get("mcpServers", {}):
        out.print(f"{file} has no entry named ratchet.", markup=False)
        return
    del settings["mcpServers"]["ratchet"]
    if not settings["mcpServers"]:
        del settings["mcpServers"]
    if settings:
        _write(file, settings)
    else:
        file.unlink()
    out.print(f"Removed ratchet from {file}.", markup=False)


def _read(file: Path) -> dict[str, Any]:
    try:
        settings = jsonlib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    except (ValueError, OSError) as error:
        raise InputError(f"{file} cannot be read: {error}.") from None
    if not isinstance(settings, dict) or not isinstance(settings.get("mcpServers", {}), dict):
        raise InputError(f"{file} does not configure MCP servers.")
    return settings


def _write(file: Path, settings: dict[str, Any]) -> None:
    if file.is_symlink():
        raise InputError(f"{file} is a symbolic link; nothing is written through links.")
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    fresh.write_text(jsonlib.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    fresh.replace(file)
