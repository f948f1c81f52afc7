"""Paths of files in expressions: which file of the repository one names."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from itertools import islice

from ratchet.wire.looking.meanings import CallFrame, Meaning
from ratchet.wire.looking.names import Names
from ratchet.wire.looking.syntax import (
    Alternatives,
    AttributeUse,
    BinaryOperation,
    CodeScope,
    ImportedName,
    Invocation,
    ItemUse,
    NameUse,
    Syntax,
    TextTemplate,
    TextValue,
)

_FILE = re.compile(
    r"[\w ./\\{…}@-]*"
    r"\.(?:md|txt|j2|jinja|jinja2|prompty|prompt"
    r"|mustache|hbs|tmpl|tpl|xml|ya?ml|json|toml)\b",
    re.IGNORECASE,
)


MOST_TEXTS = 200
"""Texts of one expression that are followed at most."""


class FilePaths:
    """Follows expressions to the files that they name.

    Args:
        names: Names of the program.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self._found: dict[tuple[str, str], str | None] = {}
        self._by_name: dict[str, list[str]] = {}
        self._read: dict[tuple[int, int], list[str]] = {}

    def files(self, syntax: Syntax, scope: CodeScope, frame: CallFrame | None) -> Iterator[str]:
        """Files of the repository that an expression names, each once."""
        seen: set[str] = set()
        for text in dict.fromkeys(self.texts(syntax, scope, frame, 0)):
            found = _FILE.search(text)
            if found is None:
                continue
            path = self.locate(found.group().strip(), scope.module.path)
            if path is not None and path not in seen:
                seen.add(path)
                yield path

    def texts(
        self, syntax: Syntax, scope: CodeScope, frame: CallFrame | None, depth: int
    ) -> Iterator[str]:
        """Texts that may be the end of a path, each once."""
        if depth > 12:
            return
        if frame is not None:
            yield from islice(dict.fromkeys(self._texts(syntax, scope, frame, depth)), MOST_TEXTS)
            return
        key = (id(syntax), id(scope))
        if key not in self._read:
            self._read[key] = []  # for a text that depends on itself
            found = dict.fromkeys(self._texts(syntax, scope, None, depth))
            self._read[key] = list(islice(found, MOST_TEXTS))
            if depth > 6 and not found:
                del self._read[key]
                return
        yield from self._read[key]

    def _texts(
        self, syntax: Syntax, scope: CodeScope, frame: CallFrame | None, depth: int
    ) -> Iterator[str]:
        match syntax:
            case TextValue(value=value):
                yield value
            case TextTemplate(parts=parts):
                joined = ""
                for part in parts:
                    if isinstance(part, str):
                        joined += part
                    else:
                        joined += next(self.texts(part, scope, frame, depth + 1), "…")
                yield joined
            case NameUse(name=name):
                values, function = self.names.bound(name, scope)
                for bound in values[:6]:
                    if isinstance(bound.value, ImportedName):
                        found = self.names.imported(bound.scope.module, bound.value)
                        if not isinstance(found, Meaning):
                            for one in found[:3]:
                                if isinstance(one.value, Syntax):
                                    yield from self.texts(one.value, one.scope, None, depth + 1)
                    else:
                        inner = frame if bound.scope.enclosing("function") else None
                        yield from self.texts(bound.value, bound.scope, inner, depth + 1)
                if function is not None:
                    yield from self._parameter(function, name, frame, depth)
            case AttributeUse(base=base, name=name):
                for one_ in self.names.meanings(base, scope, frame)[:4]:
                    if one_.scope is not None and one_.scope.kind == "class":
                        for bound in self.names.classes.attributes(one_.scope, name)[:4]:
                            if isinstance(bound.value, Syntax):
                                yield from self.texts(bound.value, bound.scope, None, depth + 1)
                if not isinstance(base, NameUse) or name in ("value",):
                    yield from self.texts(base, scope, frame, depth + 1)
            case BinaryOperation(left=left, right=right):
                ends = list(self.texts(right, scope, frame, depth + 1))
                starts = list(self.texts(left, scope, frame, depth + 1)) or [""]
                for end in ends:
                    for start in starts[:3]:
                        glue = "/" if syntax.operator == "/" and start else ""
                        yield f"{start}{glue}{end}"
                if not ends:
                    yield from starts
            case Invocation():
                given = [*syntax.arguments, *syntax.keywords.values()]
                functions = [
                    meaning
                    for meaning in self.names.meanings(syntax.function, scope, frame)[:3]
                    if meaning.scope is not None and meaning.scope.kind == "function"
                ]
                for function_ in functions:
                    assert function_.scope is not None
                    inner_ = CallFrame(function_.scope, syntax, scope, frame)
                    for returned in function_.scope.returns[:4]:
                        yield from self.texts(returned, function_.scope, inner_, depth + 1)
                pieces = [list(self.texts(each, scope, frame, depth + 1)) for each in given]
                chosen = [piece[0] for piece in pieces if piece]
                if len(chosen) > 1:
                    yield "/".join(chosen)
                for piece in pieces:
                    yield from piece
                if isinstance(syntax.function, AttributeUse):
                    yield from self.texts(syntax.function.base, scope, frame, depth + 1)
            case ItemUse(base=base):
                yield from self.texts(base, scope, frame, depth + 1)
            case Alternatives(options=options):
                for one__ in options:
                    yield from self.texts(one__, scope, frame, depth + 1)

    def _parameter(
        self, function: CodeScope, name: str, frame: CallFrame | None, depth: int
    ) -> Iterator[str]:
        here = frame
        while here is not None:
            if here.function is function:
                given = here.argument(name)
                if given is not None:
                    yield from self.texts(given, here.scope, here.parent, depth + 1)
                    return
            here = here.parent
        for parameter in function.parameters:
            if parameter.name == name and parameter.default is not None:
                yield from self.texts(parameter.default, function, None, depth + 1)
        for invocation, scope in self.names.calls.of(function)[:12]:
            given = CallFrame(function, invocation, scope, None).argument(name)
            if given is not None:
                yield from self.texts(given, scope, None, depth + 2)

    def locate(self, text: str, importer: str) -> str | None:
        """The file that a path's end names: beside the code, else the only one of that name."""
        key = (text, importer)
        if key not in self._found:
            self._found[key] = self._located(text, importer)
        return self._found[key]

    def _named(self, end: str) -> list[str]:
        """Files whose path ends so."""
        if not self._by_name:
            for path in sorted(self.names.program.files.known):
                self._by_name.setdefault(path.rpartition("/")[2], []).append(path)
        paths = self._by_name.get(end.rpartition("/")[2], [])
        return [path for path in paths if path == end or path.endswith("/" + end)]

    def _located(self, text: str, importer: str) -> str | None:
        known = self.names.program.files.known
        text = text.replace("\\", "/").replace("…", "").lstrip("./")
        while text.startswith("../"):
            text = text[3:]
        folder = importer.rpartition("/")[0]
        while True:
            for middle in ("", "src", "prompts", "templates", "config"):
                path = posixpath.normpath(posixpath.join(folder, middle, text))
                if path in known:
                    return path
            if not folder:
                break
            folder = folder.rpartition("/")[0]
        tail = text.split("/")
        for size in range(len(tail), 0, -1):
            end = "/".join(tail[-size:])
            fitting = self._named(end)
            if len(fitting) == 1:
                return fitting[0]
            if fitting and size == len(tail):
                near = importer.split("/")[0]
                same = [path for path in fitting if path.split("/")[0] == near]
                if len(same) == 1:
                    return same[0]
        return None

    def constant(self, syntax: NameUse, scope: CodeScope, frame: CallFrame | None) -> str:
        """The text that a name stands for; empty if it is not known."""
        found = next(self.texts(syntax, scope, frame, 0), "")
        return found if "…" not in found else ""
