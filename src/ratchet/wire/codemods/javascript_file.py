"""A JavaScript or TypeScript file: its syntax tree, and the facts that the wiring needs."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ratchet.types import InputError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

ENDINGS = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")
_CLIENT = re.compile(
    rb"""\A(?:\xef\xbb\xbf)?(?:\s|//[^\n]*\n|/\*.*?\*/)*["']use client["']""", re.S
)
_SERVER = re.compile(
    r"(?:^|/)(?:app/(?:.*/)?route\.[jt]sx?|pages/api/.*\.[jt]s|(?:server|api|backend|functions)/.*)$"
)
"""Files that run on a server, judged by their path."""
_BROWSER = frozenset({"react-dom", "vue", "svelte", "solid-js", "next", "nuxt", "vite"})
"""Packages of a project that builds web pages."""


class JavascriptFile:
    """A JavaScript or TypeScript file.

    Args:
        path: Relative to the repository.
        data: Its bytes.
    """

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = data

    @functools.cached_property
    def root(self) -> Node:
        """The root of its syntax tree."""
        grammar = "typescript" if self.path.endswith((".ts", ".mts", ".cts")) else "tsx"
        return _parser(grammar).parse(self.data).root_node

    def text(self, node: Node) -> str:
        """Source of a node."""
        return self.data[node.start_byte : node.end_byte].decode(errors="replace")

    def nodes(self, kind: str) -> Iterator[Node]:
        """All nodes of a kind, in order."""
        yield from self._kinds.get(kind, ())

    @functools.cached_property
    def _kinds(self) -> dict[str, list[Node]]:
        nodes: dict[str, list[Node]] = {}
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            if node.is_named:
                nodes.setdefault(node.type, []).append(node)
            waiting.extend(reversed(node.children))
        return nodes

    def imported(self) -> dict[str, tuple[str, str]]:
        """Package and exported name by local name; the name is `default`, or `*` for the whole
        package."""
        bindings: dict[str, tuple[str, str]] = {}
        for statement in self.nodes("import_statement"):
            source = statement.child_by_field_name("source")
            clause = next(
                (child for child in statement.children if child.type == "import_clause"), None
            )
            if source is None or clause is None:
                continue
            package = self.text(source)[1:-1]
            for part in clause.children:
                if part.type == "identifier":
                    bindings[self.text(part)] = (package, "default")
                elif part.type == "namespace_import":
                    bindings[self.text(part.children[-1])] = (package, "*")
                elif part.type == "named_imports":
                    for specifier in part.named_children:
                        name, alias = (
                            specifier.child_by_field_name(key) for key in ("name", "alias")
                        )
                        if name is not None:
                            bindings[self.text(alias or name)] = (package, self.text(name))
        for call in self.nodes("variable_declarator"):
            name, value = (call.child_by_field_name(key) for key in ("name", "value"))
            if name is None or value is None or value.type != "call_expression":
                continue
            function = value.child_by_field_name("function")
            arguments = value.child_by_field_name("arguments")
            if function is None or self.text(function) != "require" or arguments is None:
                continue
            package = self.text(arguments)[2:-2]
            if name.type == "identifier":
                bindings[self.text(name)] = (package, "default")
            else:
                bindings |= {
                    self.text(child): (package, self.text(child)) for child in name.named_children
                }
        return bindings


def package_of(root: Path, path: str) -> dict[str, Any]:
    """The nearest `package.json` at or above a file; empty if there is none."""
    for folder in PurePosixPath(path).parents:
        file = root / folder / "package.json"
        if file.is_file():
            try:
                package = json.loads(file.read_bytes())
            except ValueError:
                return {}
            return package if isinstance(package, dict) else {}
    return {}


def check_not_bundled(root: Path, path: str, data: bytes) -> None:
    """Raise InputError for a file that may be bundled for a browser, where the package cannot run.

    In a project that makes pages, any file may be; only its place says that one is the server's.
    """
    package = package_of(root, path)
    packages = {**package.get("dependencies", {}), **package.get("devDependencies", {})}
    makes_pages = bool(_BROWSER & set(packages)) and not _SERVER.search(path)
    if makes_pages or _CLIENT.match(data):
        raise InputError(f"{path} may be bundled for a browser, where the package does not run.")


@functools.cache
def _parser(grammar: str) -> Parser:
    import tree_sitter_typescript
    from tree_sitter import Language, Parser

    load = {
        "typescript": tree_sitter_typescript.language_typescript,
        "tsx": tree_sitter_typescript.language_tsx,
    }[grammar]
    return Parser(Language(load()))
