"""The syntax tree of a function: nodes that may change, names in scope, kinds of expressions."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from ratchet.learn.mutations.kinds import Kind, Kinds, Shapes
from ratchet.learn.mutations.names import (
    arguments_of,
    certainly_set,
    free_names,
    stored,
)


class FunctionTree:
    """The syntax tree of one function.

    Args:
        source: The function's source.
        shapes: Object shapes of its inputs: keys with the kinds of their values.
    """

    def __init__(self, source: str, shapes: Shapes = ()) -> None:
        self.source = source
        self._shapes = shapes
        self.module = ast.parse(source)
        function = self.module.body[0]
        assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        self.function = function
        self._above: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(function):
            for child in ast.iter_child_nodes(node):
                self._above[child] = node
        self._fixed = set(self._find_fixed())
        self._kinds = Kinds(function)

    def above(self, node: ast.AST) -> ast.AST | None:
        """The parent node."""
        return self._above.get(node)

    def expressions(self) -> list[ast.expr]:
        """Expressions that may change: those evaluated, except annotations and docstrings."""
        return [
            node
            for node in ast.walk(self.function)
            if isinstance(node, ast.expr)
            and node not in self._fixed
            and not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
            and not isinstance(node, ast.Starred)
        ]

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The block that contains a statement."""
        holder = self._above[statement]
        for name in ("body", "orelse", "finalbody"):
            block = getattr(holder, name, None)
            if isinstance(block, list) and statement in block:
                return block
        return [statement]

    def kind(self, node: ast.expr) -> Kind:
        """The kind of an expression, inferred from its form and context."""
        return self._kinds.of(node)

    def numbers(self) -> list[ast.expr]:
        """Numeric expressions that may change."""
        return [node for node in self.expressions() if self.kind(node) == "number"]

    def atoms(self, place: ast.AST, kind: Kind = "number") -> list[ast.expr]:
        """Short expressions of a kind in the function that are also valid at another position."""
        bound = self.bound(place)
        around = self._functions_around(place)
        atoms: dict[str, ast.expr] = {}
        for node in self.expressions():
            if isinstance(node, ast.Constant) or self.kind(node) != kind:
                continue
            if kind != "number" and not isinstance(node, ast.Name | ast.Subscript):
                continue
            if any(isinstance(part, ast.Name) and part.id in around for part in ast.walk(node)):
                continue  # it would recurse forever
            if sum(1 for _ in ast.walk(node)) > 9 or not free_names(node) <= bound:
                continue
            atoms.setdefault(ast.dump(node), node)
        for node in [n for n in self.expressions() if isinstance(n, ast.Subscript)]:
            if free_names(node) <= bound:
                for sibling, its_kind in self.siblings(node):
                    if its_kind == kind:
                        atoms.setdefault(ast.dump(sibling), sibling)
        for name in sorted(bound):
            variable = ast.Name(name, ast.Load())
            if self.kind(variable) == kind:
                atoms.setdefault(ast.dump(variable), variable)
        return [copy.deepcopy(node) for node in atoms.values()]

    def siblings(self, node: ast.Subscript) -> list[tuple[ast.Subscript, Kind]]:
        """For `x["key"]`: the other keys of objects that have this key, with their kinds."""
        key = node.slice
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            return []
        keys: dict[str, Kind] = {}
        for shape in self._shapes:
            if any(name == key.value for name, _ in shape):
                keys.update((name, kind) for name, kind in shape if name != key.value)
        return [
            (ast.Subscript(copy.deepcopy(node.value), ast.Constant(name), ast.Load()), kind)
            for name, kind in sorted(keys.items())
        ]

    def _functions_around(self, place: ast.AST) -> set[str]:
        names: set[str] = set()
        node: ast.AST | None = place
        while node is not None:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(node.name)
            node = self._above.get(node)
        return names

    def bound(self, place: ast.AST) -> set[str]:
        """Names certainly bound at a position: parameters, and names set before it."""
        names: set[str] = set()
        node: ast.AST | None = place
        while node is not None:
            holder = self._above.get(node)
            if isinstance(node, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef):
                names |= {arg.arg for arg in arguments_of(node.args)}
            if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
                for part in node.generators:
                    names |= stored(part.target)
            if isinstance(node, ast.For | ast.AsyncFor) and node is not place:
                names |= stored(node.target)
            if isinstance(node, ast.stmt) and node is not self.function:
                for before in self.block(node):
                    if before is node:
                        break
                    names |= certainly_set(before)
            node = holder
        return names

    def _find_fixed(self) -> Iterator[ast.AST]:
        """Nodes that no mutation may touch: signatures, annotations, docstrings, keys, formats."""
        for node in ast.walk(self.function):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                first = node.body[0]
                if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                    yield from (first, first.value)
                for decorator in node.decorator_list:
                    yield from ast.walk(decorator)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if node.returns is not None:
                    yield from ast.walk(node.returns)
                yield from ast.walk(node.args)
            if isinstance(node, ast.AnnAssign):
                yield from ast.walk(node.annotation)
            if isinstance(node, ast.JoinedStr):
                yield from ast.walk(node)
            if isinstance(node, ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal):
                yield node
