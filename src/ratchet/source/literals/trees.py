"""Reads the literals of a file with a tree-sitter grammar."""

from __future__ import annotations

import functools
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ratchet.source.literals.literal import Literal
from ratchet.source.literals.quotes import (
    Operand,
    Quote,
    Token,
    concatenation_literal,
    token_literal,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_DEPTH = 3000
"""Nodes below this depth are not read."""

_SIMPLE = re.compile(r"[\w$.\[\]'\"!?]+")


class SourceText:
    """A file's text, with the positions of its syntax tree converted from bytes."""

    def __init__(self, text: str, parser: Parser) -> None:
        self.text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self._base = 1 if text.startswith("\ufeff") else 0
        data = text[self._base :].encode()
        self._places: Sequence[int] = range(0)
        if len(data) != len(text) - self._base:
            places = array("L", bytes(8 * (len(data) + 1)))
            at = 0
            for number, character in enumerate(text[self._base :]):
                size = len(character.encode())
                for offset in range(size):
                    places[at + offset] = number
                at += size
            places[at] = len(text) - self._base
            self._places = places
        self.root = parser.parse(data).root_node

    def position(self, byte: int) -> int:
        """Convert a byte position to a position in characters."""
        return (self._places[byte] if self._places else byte) + self._base

    def span(self, node: Node) -> tuple[int, int]:
        """The range of a node, without white space before it."""
        start, end = self.position(node.start_byte), self.position(node.end_byte)
        while start < end and self.text[start] in " \t\r\n":
            start += 1
        return start, end

    def source(self, node: Node) -> str:
        """A node's source."""
        start, end = self.span(node)
        return self.text[start:end]


@dataclass(frozen=True)
class Grammar:
    """The parts of reading that differ between languages."""

    language: str
    load: Callable[[], object]
    """Imports the grammar."""
    token: Callable[[SourceText, Node], Token | None]
    """Returns a node's quoted string."""
    sums: str = ""
    """Type of a node that joins two operands."""
    adjacent: str = ""
    """Type of a node of adjacent strings."""
    join: Callable[[SourceText, Node], tuple[str, list[Node]] | None] = lambda source, node: None
    """Separator and elements, for a call that joins a list."""
    others: Callable[[Token, str], tuple[Quote, ...]] = lambda token, newline: ()
    """Alternative quotes for a string's text."""
    ignored: Callable[[Node], bool] = lambda node: False
    """Whether a string at this node is not a value: a key, a module's name."""

    def read(self, text: str) -> tuple[list[Literal], int]:
        """The literals of a text, and the number of places that do not parse."""
        source = SourceText(text, _parser(self.load))
        broken = 0
        literals: list[Literal] = []
        for node in _walk(source.root):
            broken += node.is_error or node.is_missing
            if self.ignored(node):
                continue
            literal = self._literal(source, node)
            if literal is not None:
                literals.append(literal)
        return literals, broken

    def _literal(self, source: SourceText, node: Node) -> Literal | None:
        token = self.token(source, node)
        if token is not None:
            alternatives = self.others(token, source.newline)
            return token_literal(source.text, token, self.language, alternatives)
        if self.adjacent and node.type == self.adjacent:
            tokens = [self.token(source, child) for child in node.named_children]
            strings = [token for token in tokens if token is not None]
            if len(strings) < len([c for c in node.named_children if c.type != "comment"]):
                return None
            return concatenation_literal(
                source.text, [strings], self.language, source.span(node), glue=""
            )
        if self.sums and node.type == self.sums and _is_sum(node):
            if node.parent is not None and node.parent.type == self.sums and _is_sum(node.parent):
                return None  # a part of a longer one
            return self._sum(source, node)
        joined = self.join(source, node)
        if joined is None:
            return None
        separator, elements = joined
        operands = [self._operands(source, element) for element in elements]
        if not any(
            isinstance(operand, Token)
            for element_operands in operands
            for operand in element_operands
        ):
            return None
        return concatenation_literal(
            source.text,
            operands,
            self.language,
            source.span(node),
            glue=",",
            separator=separator,
        )

    def _sum(self, source: SourceText, node: Node) -> Literal | None:
        operands = self._operands(source, node)
        if not any(isinstance(operand, Token) for operand in operands):
            return None
        return concatenation_literal(
            source.text, [operands], self.language, source.span(node), glue="+"
        )

    def _operands(self, source: SourceText, node: Node) -> list[Token | Operand]:
        """Operands of a sum; a single operand for any other expression."""
        operands: list[Token | Operand] = []
        for addend in _addends(node) if node.type == self.sums and _is_sum(node) else [node]:
            if addend.type == self.adjacent:
                tokens = [self.token(source, child) for child in addend.named_children]
                operands += [token for token in tokens if token is not None]
                continue
            operand = self._operand(source, addend)
            if len(operands) == 1 and not isinstance(operand, Token):
                before = operands[0]
                if isinstance(before, Operand):
                    # Two expressions before the first string may be added as numbers.
                    start, end = before.span[0], operand.span[1]
                    operand = Operand((start, end), source.text[start:end], simple=False)
                    operands.pop()
            operands.append(operand)
        return operands

    def _operand(self, source: SourceText, node: Node) -> Token | Operand:
        token = self.token(source, node)
        if token is not None:
            return token
        return Operand(source.span(node), source.source(node), is_simple(source.source(node)))


def is_simple(expression: str) -> bool:
    """Whether an expression is a plain name or attribute, without calls."""
    return _SIMPLE.fullmatch(expression) is not None


def _walk(root: Node) -> Iterator[Node]:
    stack = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        yield node
        if depth < MAX_DEPTH:
            stack += [(child, depth + 1) for child in reversed(node.children)]


def _is_sum(node: Node) -> bool:
    operator = node.child_by_field_name("operator")
    return operator is not None and operator.type == "+"


def _addends(node: Node) -> Iterable[Node]:
    """Operands of a sum, from left to right."""
    addends: list[Node] = []
    kind = node.type
    while True:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            break
        addends.append(right)
        node = left
        if node.type != kind or not _is_sum(node):
            break
    return [node, *reversed(addends)]


def parser_of(grammar: Grammar) -> Parser:
    """The parser of a grammar."""
    return _parser(grammar.load)


@functools.cache
def _parser(load: Callable[[], object]) -> Parser:
    from tree_sitter import Language, Parser

    return Parser(Language(load()))
