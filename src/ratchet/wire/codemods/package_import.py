"""How a JavaScript or TypeScript file imports the npm package, in the file's own style."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ratchet.types import InputError
from ratchet.wire.changes import Piece
from ratchet.wire.codemods.javascript_file import JavascriptFile, package_of

if TYPE_CHECKING:
    from tree_sitter import Node

PACKAGE = "agent-ratchet"


class PackageImport:
    """The package's import in one file.

    Args:
        file: The file as it is.
        module: Whether a file without an import or an export is an ES module.

    Raises:
        InputError: The file cannot use the package.
    """

    def __init__(self, file: JavascriptFile, *, module: bool) -> None:
        self._file = file
        self._imported = file.imported()
        if file.root.has_error:
            raise InputError(f"{file.path} has a syntax error.")
        try:
            file.data.decode()
        except UnicodeDecodeError:
            raise InputError(f"{file.path} is not UTF-8: convert the file first.") from None
        if re.search(rb"""export\s+const\s+runtime\s*=\s*["']edge["']""", file.data):
            raise InputError(f"{file.path} runs on an edge runtime, where the package does not.")
        self._newline = "\r\n" if b"\r\n" in file.data else "\n"
        self._top = [node for node in file.root.children if node.type not in _NOTHING]
        self._imports = [node for node in self._top if node.type == "import_statement"]
        self._requires = [node for node in self._top if _REQUIRE.match(file.text(node))]
        exported = any(node.type == "export_statement" for node in self._top)
        self._module = bool(self._imports) or exported or (module and not self._requires)
        self.name = self._found() or self._free_name()
        """The package's name in the file."""
        self.usable_from = 0 if self._module else self._at()
        """The first byte at which it can be used."""

    def pieces(self) -> tuple[Piece, ...]:
        """The import, if the file has none yet."""
        if self._found():
            return ()
        texts = [self._file.text(node) for node in (*self._imports, *self._requires)]
        end = "" if texts and not any(text.rstrip().endswith(";") for text in texts) else ";"
        code = "".join(texts) or self._file.data.decode()
        quote = "'" if code.count("'") > code.count('"') else '"'
        source = f"{quote}{PACKAGE}{quote}"
        line = f"const {self.name} = require({source}){end}"
        if self._module:
            line = f"import * as {self.name} from {source}{end}"
        at = self._at()
        head = self._file.data[:at]
        if head and not head.endswith((b"\n", b"\r", b"\xef\xbb\xbf")):
            return (Piece(at, at, f"{self._newline}{line}"),)
        return (Piece(at, at, f"{line}{self._newline}"),)

    def declares(self, call: Node, name: str) -> bool:
        """Whether a call calls the package's function of this name."""
        function = call.child_by_field_name("function")
        if function is None:
            return False
        callee = self._file.text(function)
        head, _, last = callee.rpartition(".")
        if head:
            return self._imported.get(head, ("",))[0] == PACKAGE and last == name
        return self._imported.get(callee) == (PACKAGE, name)

    def _found(self) -> str:
        imports = self._imported.items()
        return next((name for name, origin in imports if origin in ((PACKAGE, "*"), _WHOLE)), "")

    def _free_name(self) -> str:
        used = {
            self._file.text(node)
            for kind in ("identifier", "shorthand_property_identifier", "type_identifier")
            for node in self._file.nodes(kind)
        }
        return next(
            name for name in ("ratchet", "agentRatchet", "_agentRatchet") if name not in used
        )

    def _at(self) -> int:
        """Where the import goes: below the others, or above the first statement."""
        before = self._imports if self._module else self._requires
        if before:
            end = before[-1].end_byte
            line = re.compile(rb"[ \t;]*(?P<note>//[^\r\n]*|/\*[^\r\n]*)?(?:\r\n|\n|\Z)")
            match = line.match(self._file.data, end)
            return match.end() if match is not None and match["note"] else end
        after = 3 if self._file.data.startswith(b"\xef\xbb\xbf") else 0
        for node in self._file.root.children:
            directive = node.type == "expression_statement" and node.named_children
            if node.type == "hash_bang_line" or (
                directive and node.named_children[0].type == "string"
            ):
                newline = self._file.data.find(b"\n", node.end_byte)
                after = newline + 1 if newline >= 0 else len(self._file.data)
        first = next((node for node in self._top if node.start_byte >= after), None)
        if first is None:
            return after
        return max(after, self._above_comments(first))

    def _above_comments(self, node: Node) -> int:
        """The first byte of a statement, including the comments right above it."""
        row = node.start_point[0]
        start = node.start_byte - node.start_point[1]
        before = node.prev_sibling
        while before is not None and before.type == "comment" and before.end_point[0] >= row - 1:
            row = before.start_point[0]
            start = before.start_byte - before.start_point[1]
            before = before.prev_sibling
        return start


_REQUIRE = re.compile(r"(?:const|let|var)\s[^=]*=\s*require\s*\(")
_NOTHING = ("comment", "hash_bang_line", ";")
_WHOLE = (PACKAGE, "default")


def is_module(root: Path, path: str) -> bool:
    """Whether Node treats a file as an ES module even if it neither imports nor exports."""
    ending = PurePosixPath(path).suffix
    if ending in (".cjs", ".cts"):
        return False
    if ending != ".js":
        return True
    return package_of(root, path).get("type") == "module"
