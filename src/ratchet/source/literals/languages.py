"""The languages whose literals are read, by file name or by the interpreter that a file names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from ratchet.source.literals import json_strings, python, text_files, toml_strings, yaml_scalars
from ratchet.source.literals.embedded_json import embedded
from ratchet.source.literals.go import GO
from ratchet.source.literals.javascript import JAVASCRIPT, TSX, TYPESCRIPT
from ratchet.source.literals.literal import Literal
from ratchet.source.literals.shell import SHELL

Reader = Callable[[str], tuple[list[Literal], int]]


@dataclass(frozen=True)
class Language:
    """A language of source files."""

    name: str
    read: Reader
    """Reads the literals of a text, and counts the places that do not parse."""


def _checked(read: Reader, parses: Callable[[str], bool]) -> Reader:
    """A reader that also counts what the language's own parser refuses."""

    def both(text: str) -> tuple[list[Literal], int]:
        literals, broken = read(text)
        return literals, broken + (not parses(text))

    return both


def _with_json(read: Reader) -> Reader:
    """A reader that also finds the strings of JSON in literals."""

    def both(text: str) -> tuple[list[Literal], int]:
        literals, broken = read(text)
        return [*literals, *embedded(literals)], broken

    return both


_PYTHON = Language("Python", _checked(_with_json(python.PYTHON.read), python.parses))
_JAVASCRIPT = Language("JavaScript", _with_json(JAVASCRIPT.read))
_TYPESCRIPT = Language("TypeScript", _with_json(TYPESCRIPT.read))
_TSX = Language("TypeScript", _with_json(TSX.read))
_JSON = Language("JSON", _checked(json_strings.JSON.read, json_strings.parses))
_TOML = Language("TOML", _checked(toml_strings.TOML.read, toml_strings.parses))
_YAML = Language("YAML", _checked(yaml_scalars.read, yaml_scalars.parses))
_GO = Language("Go", _with_json(GO.read))
_SHELL = Language("shell", _with_json(SHELL.read))
TEXT = Language("text", text_files.read)

LANGUAGES = {
    **dict.fromkeys(("py", "pyi"), _PYTHON),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs"), _JAVASCRIPT),
    **dict.fromkeys(("ts", "mts", "cts"), _TYPESCRIPT),
    "tsx": _TSX,
    **dict.fromkeys(("json", "jsonc", "json5"), _JSON),
    "toml": _TOML,
    **dict.fromkeys(("yaml", "yml"), _YAML),
    "go": _GO,
    **dict.fromkeys(("sh", "bash", "zsh"), _SHELL),
}
"""By file name extension. Files with other extensions are read as text."""

_INTERPRETERS = {
    **dict.fromkeys(("python", "uv"), _PYTHON),  # `uv run --script`
    **dict.fromkeys(("node", "bun"), _JAVASCRIPT),
    **dict.fromkeys(("deno", "tsx", "ts-node"), _TYPESCRIPT),
    **dict.fromkeys(("sh", "bash", "dash", "ksh", "zsh"), _SHELL),
}
_SHEBANG = re.compile(r"#!\s*(?:\S*/)?(?:env\s+(?:-\S+\s+|\w+=\S*\s+)*(?:\S*/)?)?([a-zA-Z-]+)")


def language_of(path: str, text: str = "") -> Language:
    """The language of a file: by its extension, or by the interpreter in its first line.

    Args:
        path: Its name, with or without folders.
        text: Its content, which is looked at where the name has no ending.
    """
    ending = PurePosixPath(path).suffix.lower().removeprefix(".")
    shebang = None if ending else _SHEBANG.match(text)
    if shebang:
        return _INTERPRETERS.get(shebang[1], TEXT)
    return LANGUAGES.get(ending, TEXT)
