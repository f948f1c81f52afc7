"""Edits of source slots: write a new value, and verify that it reads back."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ratchet.bind.function_text import dedented, indented
from ratchet.ship.literal import first_piece, rewrap, write_text, write_value
from ratchet.ship.source_file import SourceFile, TextRange, read_source
from ratchet.ship.source_slots import (
    FunctionNode,
    SourceSlot,
    apply_wrappers,
    find_slots,
    meaning_of,
    unwrap,
)
from ratchet.source.literals.data_values import same_value
from ratchet.source.literals.literal import Inexpressible
from ratchet.source.literals.search import byte_span, read_file
from ratchet.source.literals.writing import replacement
from ratchet.types import Code, Model, Params, PromptTemplate, Resource, ShipError


@dataclass(frozen=True)
class PatchTarget:
    """A resource's location, independent of line numbers."""

    kind: str
    name: str
    file: str
    """Relative to the root, with forward slashes."""
    qualname: str | None = None
    language: str = ""
    """The language of the literal, for a prompt that is found by its text; otherwise empty."""
    before: str = ""
    """Fingerprint of the prompt's literal before the patch."""
    after: str = ""
    """Fingerprint of the literal after the patch."""
    format: str = ""
    """The file's format (`yaml`, `json` or `toml`), for a value that is read from a file."""
    keys: str = ""
    """The value's keys, as a JSON list."""
    slot: str = ""
    """The parameter's name; `text` for a prompt."""


@dataclass(frozen=True)
class SourceEdit:
    """One byte span that the patch rewrites."""

    target: PatchTarget
    key: str
    """The parameter or field; `text` for a prompt, `source` for a function."""
    span: TextRange
    """Byte offsets in the old file, end excluded."""
    line: int
    """1-based line of the span's start in the old file."""
    old: bytes
    new: bytes
    before: Any
    """Value in the baseline; source text for a function."""
    after: Any
    """Value in the candidate; source text for a function."""
    reads: Any
    """Expected value of the slot after the edit: the value, or a function's meaning."""


def values_of(resource: Resource) -> dict[str, Any]:
    """A resource's values by slot key."""
    match resource:
        case Params():
            return dict(resource.values)
        case PromptTemplate():
            return {"text": resource.text}
        case Model():
            fields = {
                "model": resource.model,
                "base_url": resource.base_url,
                "weights": resource.weights,
            }
            if resource.first is not None:
                fields["first"] = resource.first
            return {**fields, **resource.sampling}
        case Code():
            return {"source": meaning_of(resource)}


def changed_since(what: str, present: Any) -> ShipError:
    """The error that the source differs from what was measured.

    Args:
        what: The place.
        present: What it holds now; None leaves that out.
    """
    says = "" if present is None else f" (it is {present!r} now)"
    return ShipError(
        f"{what} changed since the baseline was measured{says}; the proof is for the old source.",
        hint="Measure again with `ratchet improve`, or revert the change.",
    )


def holds_value(source: SourceFile, slot: SourceSlot, value: Any, resource: Resource) -> bool:
    """Whether a slot holds a resource's value."""
    if same_value(slot.value, value):
        return True
    # Dedenting may have changed a multi-line string inside a method; so compare the text.
    return isinstance(resource, Code) and function_text(
        source, slot
    ).strip() == resource.source.strip().replace("\r\n", "\n")


def write_edit(
    source: SourceFile, target: PatchTarget, slot: SourceSlot, old: Resource, new: Resource
) -> SourceEdit:
    """The smallest edit of a slot that reads back as the new value.

    Raises:
        ShipError: There is no such edit.
    """
    if isinstance(old, Code) and isinstance(new, Code):
        ways = function_edits(source, slot, old.source, new.source)
        before, after = old.source, new.source
    else:
        before, after = values_of(old)[slot.key], values_of(new)[slot.key]
        if isinstance(new, PromptTemplate):
            ways = _text_ways(source, slot, after)
        else:
            ways = [(slot.span, write_value(after, source.text(slot.span)))]
    refusal = ShipError(f"{source.path}:{slot.line}: {target.name}.{slot.key} has no safe edit.")
    for span, text in ways:
        encoded = text.encode()
        edit = SourceEdit(
            target=target,
            key=slot.key,
            span=span,
            line=slot.line,
            old=source.data[span[0] : span[1]],
            new=encoded,
            before=before,
            after=after,
            reads=values_of(new)[slot.key],
        )
        try:
            data = source.data[: span[0]] + encoded + source.data[span[1] :]
            verify(source, data, [edit])
        except ShipError as error:
            refusal = error
            continue
        return edit
    raise refusal


def _text_ways(source: SourceFile, slot: SourceSlot, text: str) -> list[tuple[TextRange, str]]:
    """Ways to write a prompt: inside its dedent or strip call, or replacing all of it."""
    assert isinstance(slot.node, ast.expr)
    inner, wrappers = unwrap(source, slot.node)
    ways: list[tuple[TextRange, str]] = []
    if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
        literal_text: str | None = text
        if wrappers:
            evaluate: Callable[[str], str] = lambda literal: apply_wrappers(literal, wrappers)  # noqa: E731
            literal_text = rewrap(text, inner.value, evaluate)
        if literal_text is not None:
            span = source.span(inner)
            ways.append((span, write_text(literal_text, _lines(source.text(span)))))
    if not wrappers and isinstance(inner, ast.BinOp) and (way := _sum_way(source, inner, text)):
        ways.append(way)
    first = next(
        (
            n
            for n in ast.walk(slot.node)
            if isinstance(n, ast.Constant) and isinstance(n.value, str)
        ),
        None,
    )
    style = first_piece(_lines(source.text(source.span(first)))) if first else '""'
    ways.append((slot.span, write_text(text, style)))
    return [(span, code.replace("\n", source.newline)) for span, code in ways]


def _sum_way(source: SourceFile, node: ast.BinOp, text: str) -> tuple[TextRange, str] | None:
    """An edit of concatenated strings that keeps the unchanged ones."""
    file_text = source.data.decode()
    file = read_file(file_text, source.path)
    span = source.span(node)
    literal = next(
        (literal for literal in file.literals if byte_span(file_text, literal.span) == span), None
    )
    if literal is None:
        return None
    try:
        code = replacement(file_text, literal, text, file.language.read).source
    except Inexpressible:
        return None
    return span, _lines(code)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def verify(source: SourceFile, data: bytes, edits: list[SourceEdit]) -> None:
    """Check that the new file parses, holds the new values, and is otherwise unchanged."""
    result = read_source(data, source.path)
    masked_old: set[int] = set()
    masked_new: set[int] = set()
    for edit in edits:
        target = edit.target
        old = find_slots(source, target.kind, target.name, target.qualname)[edit.key]
        new = find_slots(result, target.kind, target.name, target.qualname).get(edit.key)
        if new is None or not same_value(new.value, edit.reads):
            raise ShipError(
                f"{source.path}:{edit.line}: the edit of {target.name}.{edit.key} would not read"
                " back as the candidate's value.",
                hint=f"Write this there by hand: {edit.after!r}.",
            )
        masked_old.add(id(old.node))
        masked_new.add(id(new.node))
    if _masked(source.tree, masked_old) != _masked(result.tree, masked_new):
        raise ShipError(f"{source.path}: the edit would change more than the resource.")


class _Mask(ast.NodeTransformer):
    def __init__(self, nodes: set[int]) -> None:
        self.nodes = nodes

    def visit(self, node: ast.AST) -> Any:
        if id(node) not in self.nodes:
            # Copies, because the slots still point into the tree.
            fields = {name: self._copy(value) for name, value in ast.iter_fields(node)}
            return type(node)(**fields)
        if isinstance(node, FunctionNode):
            decorators = [self.visit(decorator) for decorator in node.decorator_list]
            return ast.Expr(ast.Tuple(decorators, ast.Load()))
        return ast.Constant(...)

    def _copy(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._copy(item) for item in value]
        return self.visit(value) if isinstance(value, ast.AST) else value


def _masked(tree: ast.Module, nodes: set[int]) -> str:
    return ast.dump(_Mask(nodes).visit(tree))


def function_text(source: SourceFile, slot: SourceSlot) -> str:
    """The function's text, dedented and without decorators, as in `Code.source`."""
    start = source.starts[slot.node.lineno - 1]
    return dedented(_normal(source.data[start : slot.span[1]].decode())).strip("\n")


def function_edits(
    source: SourceFile, slot: SourceSlot, baseline: str, candidate: str
) -> list[tuple[TextRange, str]]:
    """Ways to write the candidate into the file, the smallest edit first.

    Args:
        source: The file.
        slot: The function's slot.
        baseline: Source of the function as measured.
        candidate: Source of the function to write, dedented, without decorators.

    Returns:
        (span, text) pairs; the caller uses the first that reads back with the candidate's meaning.
    """
    assert isinstance(slot.node, FunctionNode)
    start = source.starts[slot.node.lineno - 1]
    indent = source.data[start : slot.span[0]].decode()
    new = candidate.replace("\r\n", "\n").strip("\n").split("\n")
    ways: list[tuple[TextRange, str]] = []
    if matched := _matching(source, slot, baseline):
        span, old = matched
        ways.append((span, _by_lines(old, baseline.strip("\n").split("\n"), new, indent)))
    ways.append((slot.span, "\n".join(indented(new, indent)).removeprefix(indent)))
    return [(span, text.replace("\n", source.newline)) for span, text in ways]


def _normal(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _matching(
    source: SourceFile, slot: SourceSlot, baseline: str
) -> tuple[TextRange, list[str]] | None:
    """The file's lines that match the baseline's lines one by one, and their span."""
    expected = baseline.strip("\n").split("\n")
    first = slot.node.lineno
    last = min(first + len(expected) - 1, len(source.starts))
    end = source.line_end(last)
    start = source.starts[first - 1]
    text = _normal(source.data[start:end].decode())
    if dedented(text).rstrip() != baseline.strip("\n").rstrip():
        return None
    # Trailing blanks of the last line may differ; everything else is the same text.
    return (slot.span[0], end), text.split("\n")


def _by_lines(old: list[str], baseline: list[str], new: list[str], indent: str) -> str:
    moved = indented(new, indent)
    lines: list[str] = []
    matcher = difflib.SequenceMatcher(None, baseline, new, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        lines += old[a:b] if tag == "equal" else moved[c:d]
    return "\n".join(lines).removeprefix(indent)
