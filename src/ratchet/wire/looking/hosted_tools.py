"""Tools that act beside the program's functions: those of models' APIs, and servers in files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ratchet.wire.facts import EffectKind
from ratchet.wire.looking.names import Names
from ratchet.wire.looking.syntax import (
    CodeModule,
    CodeScope,
    Invocation,
    MappingLiteral,
    Syntax,
    TextValue,
    walk_syntax,
)

_HOSTED: tuple[tuple[EffectKind, str], ...] = (
    ("desktop", r"computer_20\d{6}|computer_use(?:_preview)?|computer-preview"),
    ("shell", r"bash_20\d{6}|local_shell"),
    ("file write", r"text_editor_20\d{6}|memory_20\d{6}"),
    ("exec", r"code_interpreter|code_execution_20\d{6}"),
)
"""Types of tools that the APIs of OpenAI and Anthropic define, which act."""
_TYPES = [(kind, re.compile(rf"(?:{pattern})$")) for kind, pattern in _HOSTED]
_SERVER_KEYS = ("server_label", "server_url", "connector_id")
_CONFIGS = re.compile(r"(?:^|/)[\w.-]*(?:mcp|claude_desktop_config)[\w.-]*\.json$", re.IGNORECASE)
"""Names of files that list servers of tools."""
_MAX_CONFIG = 100_000


def hosted_tools(scope: CodeScope) -> Iterator[tuple[EffectKind, str, int]]:
    """Tools of a model's API that a scope names by their types: kind, what, line."""
    for root in _roots(scope):
        for one in walk_syntax(root):
            given = None
            if isinstance(one, MappingLiteral):
                given = one.get("type")
                labelled = any(one.get(key) is not None for key in _SERVER_KEYS)
            elif isinstance(one, Invocation):
                given = one.keywords.get("type")
                labelled = not one.keywords.keys().isdisjoint(_SERVER_KEYS)
            if not isinstance(given, TextValue):
                continue
            if given.value == "mcp" and labelled:
                yield "post", "a server of tools by its address", one.line
            for kind, pattern in _TYPES:
                if pattern.match(given.value):
                    yield kind, f"the tool {given.value} of a model's API", one.line


def _roots(scope: CodeScope) -> list[Syntax]:
    roots: list[Syntax] = [*scope.returns, *scope.invocations]
    for bounds in scope.bindings.values():
        roots += [one.value for one in bounds if isinstance(one.value, Syntax)]
    if scope.kind == "class":
        for bounds in scope.attributes.values():
            roots += [one.value for one in bounds if isinstance(one.value, Syntax)]
    return roots


def configured_servers(
    module: CodeModule, names: Names
) -> Iterator[tuple[EffectKind, str, int, CodeScope]]:
    """Servers of tools in files that a module names: kind, what, line, and where it is named."""
    files = names.program.files
    for scope in module.scope.walk():
        for root in _roots(scope):
            for one in walk_syntax(root):
                if isinstance(one, TextValue) and _CONFIGS.search(one.value):
                    for path in files.named(one.value.rpartition("/")[2]):
                        near = "/" not in path or path.split("/")[0] == module.path.split("/")[0]
                        for kind in _started(files.text(path) or "") if near else ():
                            yield kind, f"servers of tools in {path}", one.line, scope


def _started(text: str) -> list[EffectKind]:
    """What the servers that a file lists do: run a command, or stand at an address."""
    try:
        read = json.loads(text[:_MAX_CONFIG])
    except ValueError:
        return []
    listed = read.get("mcpServers", read.get("servers", read)) if isinstance(read, dict) else None
    servers = list(listed.values()) if isinstance(listed, dict) else []
    kinds: list[EffectKind] = []
    if any(isinstance(one, dict) and "command" in one for one in servers):
        kinds.append("shell")
    if any(isinstance(one, dict) and "url" in one for one in servers):
        kinds.append("post")
    return kinds
