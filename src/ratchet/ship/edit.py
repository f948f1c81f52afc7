"""One edit of the source: how a new value is written in its slot, and that it reads back."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ratchet.ship.function import extract, place
from ratchet.ship.literal import first_piece, rewrap, write_text, write_value
from ratchet.ship.slots import FunctionNode, Slot, apply_wrappers, find_slots, meaning_of, unwrap
from ratchet.ship.source import Source, Span, read_source
from ratchet.types import Code, Model, Params, PromptTemplate, Resource, ShipError


@dataclass(frozen=True)
class Target:
    """A resource's place, in words that outlive line numbers."""

    kind: str
    name: str
    file: str
    """Relative to the root, with forward slashes."""
    qualname: str | None = None


@dataclass(frozen=True)
class Edit:
    """One byte span that the patch rewrites."""

    target: Target
    key: str
    """The knob or field; `text` for a prompt, `source` for a function."""
    span: Span
    """Byte offsets in the old file, the end excluded."""
    line: int
    """1-based line of the span's start in the old file."""
    old: bytes
    new: bytes
    before: Any
    """Value at the baseline; source text for a function."""
    after: Any
    """Value at the candidate; source text for a function."""
    reads: Any
    """What the slot must read back as: the value, or a function's meaning."""


def values_of(resource: Resource) -> dict[str, Any]:
    """Value by slot key."""
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
            return {**fields, **resource.sampling}
        case Code():
            return {"source": meaning_of(resource)}


def same(one: Any, other: Any) -> bool:
    """Equal in value and type: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    return repr(one) == repr(other)


def holds(source: Source, slot: Slot, value: Any, resource: Resource) -> bool:
    """Whether a slot says what a resource's value is."""
    if same(slot.value, value):
        return True
    # Dedenting may have changed a multi-line string inside a method; the text tells.
    return isinstance(resource, Code) and extract(
        source, slot
    ).strip() == resource.source.strip().replace("\r\n", "\n")


def write_edit(source: Source, target: Target, slot: Slot, old: Resource, new: Resource) -> Edit:
    """The smallest edit of a slot that reads back as the new value.

    Raises:
        ShipError: There is none.
    """
    if isinstance(old, Code) and isinstance(new, Code):
        ways = place(source, slot, old.source, new.source)
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
        edit = Edit(
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


def _text_ways(source: Source, slot: Slot, text: str) -> list[tuple[Span, str]]:
    """Ways to write a prompt: inside its dedent or strip, else in the place of all of it."""
    assert isinstance(slot.node, ast.expr)
    inner, wrappers = unwrap(source, slot.node)
    ways: list[tuple[Span, str]] = []
    if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
        wanted: str | None = text
        if wrappers:
            evaluate: Callable[[str], str] = lambda literal: apply_wrappers(literal, wrappers)  # noqa: E731
            wanted = rewrap(text, inner.value, evaluate)
        if wanted is not None:
            span = source.span(inner)
            ways.append((span, write_text(wanted, _lines(source.text(span)))))
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
    return [(span, written.replace("\n", source.newline)) for span, written in ways]


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def verify(source: Source, data: bytes, edits: list[Edit]) -> None:
    """The new file parses, says what was wanted, and differs from the old nowhere else."""
    result = read_source(data, source.path)
    masked_old: set[int] = set()
    masked_new: set[int] = set()
    for edit in edits:
        target = edit.target
        old = find_slots(source, target.kind, target.name, target.qualname)[edit.key]
        new = find_slots(result, target.kind, target.name, target.qualname).get(edit.key)
        if new is None or not same(new.value, edit.reads):
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
