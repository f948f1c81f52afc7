"""Leads the clients of models in JavaScript to a base URL of the environment.

The libraries `openai` and `@anthropic-ai/sdk` read it by themselves. The Vercel AI SDK's providers
do so only in newer versions, and Anthropic's wants the URL with `/v1`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ratchet.wire.changes import FileChange, LeftAlone, Piece
from ratchet.wire.entry.javascript_file import JavascriptFile
from ratchet.wire.facts import Place

if TYPE_CHECKING:
    from tree_sitter import Node

_ANTHROPIC = "process.env.ANTHROPIC_BASE_URL && `${process.env.ANTHROPIC_BASE_URL}/v1`"


class ModelClient(NamedTuple):
    """How a client of a package is made."""

    package: str
    made_by: str
    """Function or class."""
    ready: str
    """The package's instance with defaults; empty if there is none."""
    url: str
    """Expression of the base URL; undefined where the variable is not set."""
    key: str
    """Option that holds the base URL."""
    reads: bool
    """Whether it reads the variable by itself, if no base URL is given."""


CLIENTS = (
    ModelClient("openai", "default", "", "process.env.OPENAI_BASE_URL", "baseURL", True),
    ModelClient("openai", "OpenAI", "", "process.env.OPENAI_BASE_URL", "baseURL", True),
    ModelClient(
        "@anthropic-ai/sdk", "default", "", "process.env.ANTHROPIC_BASE_URL", "baseURL", True
    ),
    ModelClient(
        "@anthropic-ai/sdk", "Anthropic", "", "process.env.ANTHROPIC_BASE_URL", "baseURL", True
    ),
    ModelClient(
        "@ai-sdk/openai", "createOpenAI", "openai", "process.env.OPENAI_BASE_URL", "baseURL", False
    ),
    ModelClient("@ai-sdk/anthropic", "createAnthropic", "anthropic", _ANTHROPIC, "baseURL", False),
)
_ELSEWHERE = re.compile(
    r"@ai-sdk/(?!openai$|anthropic$|provider|react|rsc|vue|svelte|ui|mcp)[\w-]+"
)


def lead_clients(file: JavascriptFile) -> tuple[FileChange | None, list[LeftAlone]]:
    """Pieces that make a file's clients read the base URL, and clients that stay as they are."""
    pieces: list[Piece] = []
    left: list[LeftAlone] = []
    if not re.search(rb"openai|@anthropic-ai|@ai-sdk", file.data):
        return None, left
    imported = file.imported()
    known = {(one.package, one.made_by): one for one in CLIENTS}
    for call in (*file.nodes("call_expression"), *file.nodes("new_expression")):
        function = call.child_by_field_name("function") or call.child_by_field_name("constructor")
        if function is None or function.type != "identifier":
            continue
        package, name = imported.get(file.text(function), ("", ""))
        client = known.get((package, name))
        place = Place(file.path, call.start_point[0] + 1)
        if client is not None:
            pieces += _in_call(file, call, client)
        elif _ELSEWHERE.fullmatch(package) and name.startswith("create"):
            why = "Its calls do not pass the gateway, which has no address for this provider."
            left.append(LeftAlone(f"{name} of {package}", place, why))
    pieces += _ready_ones(file, imported)
    if not pieces:
        return None, left
    purpose = "Reads the base URL of its model from the environment, where it is set."
    return FileChange(file.path, purpose, tuple(sorted(pieces))), left


def _in_call(file: JavascriptFile, call: Node, client: ModelClient) -> list[Piece]:
    given = call.child_by_field_name("arguments")
    first = given.named_children[0] if given is not None and given.named_children else None
    if given is None:
        return []
    if first is None:
        if client.reads:
            return []
        at = given.start_byte + 1
        return [Piece(at, at, f"{{ {client.key}: {client.url} }}")]
    if first.type != "object":
        return []
    spread = False
    for one in first.named_children:
        spread |= one.type == "spread_element"
        key, value = (one.child_by_field_name(name) for name in ("key", "value"))
        if key is None or value is None or file.text(key).strip("'\"") != client.key:
            continue
        if value.type not in ("string", "template_string"):
            return []  # decided by the program
        return [Piece(value.start_byte, value.start_byte, f"{_grouped(client.url)} ?? ")]
    if client.reads or spread:
        return []
    at = first.start_byte + 1
    inside = file.data[at : first.end_byte - 1]
    space = re.match(rb"\s*", inside)
    gap = space.group().decode() if space and inside.strip() else " "
    end = "," if inside.strip() else " "
    return [Piece(at, at, f"{gap}{client.key}: {client.url}{end}")]


def _grouped(expression: str) -> str:
    return f"({expression})" if "&&" in expression else expression


def _ready_ones(file: JavascriptFile, imported: dict[str, tuple[str, str]]) -> list[Piece]:
    """Instead of a package's ready instance, one made here with the base URL."""
    pieces = []
    newline = "\r\n" if b"\r\n" in file.data else "\n"
    imports = [one for one in file.root.children if one.type == "import_statement"]
    if not imports:
        return []
    made = ""
    for one in file.nodes("import_specifier"):
        name, alias = (one.child_by_field_name(key) for key in ("name", "alias"))
        if name is None:
            continue
        local = file.text(alias or name)
        package, exported = imported.get(local, ("", ""))
        client = next((c for c in CLIENTS if c.package == package and c.ready == exported), None)
        if client is None or not client.ready:
            continue
        if client.made_by in imported:
            continue  # the name is taken, and its own calls are led already
        pieces.append(Piece(one.start_byte, one.end_byte, client.made_by))
        made += f"{newline}const {local} = {client.made_by}({{ {client.key}: {client.url} }});"
    if made:
        end = imports[-1].end_byte
        pieces.append(Piece(end, end, f"{newline}{made}"))
    return pieces
