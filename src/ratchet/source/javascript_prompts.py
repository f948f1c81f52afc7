"""Prompts that JavaScript and TypeScript programs declare with the npm package."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet.source.literals.javascript import JAVASCRIPT, TSX, TYPESCRIPT
from ratchet.source.literals.literal import Literal
from ratchet.source.literals.search import byte_span
from ratchet.source.literals.source_files import is_searched, is_test, read_text
from ratchet.source.literals.trees import Grammar, SourceText, parser_of
from ratchet.types import InputError, PromptTemplate

if TYPE_CHECKING:
    from tree_sitter import Node

PACKAGE = "agent-ratchet"
_GRAMMARS = {
    **dict.fromkeys(("js", "jsx", "mjs", "cjs"), JAVASCRIPT),
    **dict.fromkeys(("ts", "mts", "cts"), TYPESCRIPT),
    "tsx": TSX,
}
_PLAIN = re.compile(r"""\bengine["']?\s*:\s*["'`]plain["'`]""")


@dataclass(frozen=True)
class JavascriptPrompt:
    """A call of the package's `prompt` with a literal name and text."""

    name: str
    template: PromptTemplate
    file: Path
    line: int
    """1-based."""
    span: tuple[int, int]
    """Byte span of the text's literal in the file."""


def declared_prompts(root: Path, files: Iterable[Path]) -> list[JavascriptPrompt]:
    """The prompts that files declare; if a name is declared twice, the first.

    Args:
        root: The folder that they are read from, resolved.
        files: Files of it; those in other languages, and tests, are passed over.
    """
    prompts: dict[str, JavascriptPrompt] = {}
    for file in files:
        path = file.relative_to(root).as_posix()
        if (
            path.rpartition(".")[2].lower() not in _GRAMMARS
            or not is_searched(path)
            or is_test(path)
        ):
            continue
        text = read_text(file, root)
        if text is None or PACKAGE not in text:
            continue
        for prompt in _declared(file, text):
            prompts.setdefault(prompt.name, prompt)
    return list(prompts.values())


def text_at(path: str, data: bytes, span: tuple[int, int]) -> str | None:
    """The text of a literal without slots; None if there is none at these bytes.

    Args:
        path: The file's name, which says the language.
        data: Its bytes.
        span: Bytes of the literal.
    """
    literal = _literals(_grammar(path), data.decode()).get(span)
    return None if literal is None or literal.slots else _value(literal)


def _declared(file: Path, text: str) -> Iterator[JavascriptPrompt]:
    grammar = _grammar(file.name)
    source = SourceText(text, parser_of(grammar))
    nodes = list(_walk(source.root))
    names = {name for node in nodes for name in _names(source, node)}
    if not names:
        return
    literals = _literals(grammar, text)
    for node in nodes:
        function, argument_list = (
            node.child_by_field_name(key) for key in ("function", "arguments")
        )
        if node.type != "call_expression" or function is None or argument_list is None:
            continue
        arguments = [
            argument for argument in argument_list.named_children if argument.type != "comment"
        ]
        if source.source(function) not in names or len(arguments) < 2:
            continue
        spans = [byte_span(text, source.span(argument)) for argument in arguments[:2]]
        name, literal = (literals.get(span) for span in spans)
        if name is None or literal is None or name.slots or literal.slots:
            continue
        plain = len(arguments) > 2 and _PLAIN.search(source.source(arguments[2]))
        try:
            template = PromptTemplate(_value(literal), "plain" if plain else "f-string")
        except InputError:
            continue
        line = text.count("\n", 0, source.span(node)[0]) + 1
        yield JavascriptPrompt(_value(name), template, file, line, spans[1])


def _names(source: SourceText, node: Node) -> Iterator[str]:
    """The name that a statement gives to the package's `prompt`."""
    statement = source.source(node)
    if node.type == "import_statement" or (
        node.type == "variable_declarator" and re.search(r"=\s*require\s*\(", statement)
    ):
        origin = re.search(rf"""["']{re.escape(PACKAGE)}["']""", statement)
        if origin is None:
            return
        if namespace := re.match(
            r"(?:import\s+(?:\*\s+as\s+)?)?([\w$]+)\s*(?:=|from|,)", statement
        ):
            yield f"{namespace[1]}.prompt"
        if listed := re.search(r"\{([^}]*)\}", statement):
            for specifier in listed[1].split(","):
                if match := re.fullmatch(r"\s*prompt(?:\s*(?:\bas\b|:)\s*([\w$]+))?\s*", specifier):
                    yield match[1] or "prompt"


@functools.lru_cache(maxsize=4)
def _literals(grammar: Grammar, text: str) -> dict[tuple[int, int], Literal]:
    return {byte_span(text, literal.span): literal for literal in grammar.read(text)[0]}


def _value(literal: Literal) -> str:
    return literal.value.replace("\n", "\r\n") if literal.crlf else literal.value


def _grammar(path: str) -> Grammar:
    return _GRAMMARS[path.rpartition(".")[2].lower()]


def _walk(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack += reversed(node.children)
