"""Infers kinds of expressions: numbers, booleans, texts or lists."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

from ratchet.learn.mutations.names import arguments_of

Kind: TypeAlias = Literal["number", "truth", "text", "list", "other"]

ARITHMETIC = (ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Pow, ast.Mod)

MAX_VALUES_EXAMINED = 2_000
"""Maximum number of input values inspected for objects."""

ITEMS = 4
"""Maximum number of list items inspected: the others have the same shape."""

_NUMERIC_CALLS = (
    "abs len sum float int round pow sqrt exp log log2 log10 sin cos tan tanh floor ceil hypot dist"
    " fabs random uniform randint gauss perf_counter"
)
NUMERIC_CALLS = frozenset(_NUMERIC_CALLS.split())
LIST_CALLS = frozenset(["list", "sorted", "range", "reversed", "tuple", "split"])
TEXT_CALLS = frozenset(["str", "lower", "upper", "strip", "join", "replace", "format"])


Shapes: TypeAlias = tuple[tuple[tuple[str, Kind], ...], ...]
"""Object shapes: each object's keys with the kinds of their values."""


class Kinds:
    """Kinds of a function's expressions, by their form and use.

    Args:
        function: The function.
    """

    def __init__(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._function = function
        self._kinds: dict[str, Kind] = {}
        self._kinds = self._infer()

    def of(self, node: ast.expr) -> Kind:
        """The kind of an expression."""
        return self._kinds.get(ast.dump(node)) or self._form(node)

    def _infer(self) -> dict[str, Kind]:
        kinds: dict[str, Kind] = {}
        for arg in arguments_of(self._function.args):
            kind = _annotated(arg.annotation)
            if kind is not None:
                kinds[ast.dump(ast.Name(arg.arg, ast.Load()))] = kind
        for _ in range(2):  # the kind of one name may follow from that of another
            self._kinds = kinds
            for node in ast.walk(self._function):
                self._learn(node, kinds)
        return kinds

    def _learn(self, node: ast.AST, kinds: dict[str, Kind]) -> None:
        def mark(expression: ast.expr, kind: Kind) -> None:
            if isinstance(expression, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
                loaded = copy.deepcopy(expression)
                if hasattr(loaded, "ctx"):
                    loaded.ctx = ast.Load()
                if not (isinstance(loaded, ast.Call) and self._form(loaded) != "other"):
                    kinds.setdefault(ast.dump(loaded), kind)

        if isinstance(node, ast.BinOp) and isinstance(node.op, ARITHMETIC):
            for side in (node.left, node.right):
                if self._form(node.left) not in ("text", "list"):
                    mark(side, "number")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            for part, peer in ((node.left, node.right), (node.right, node.left)):
                if self.of(peer) == "number":
                    mark(part, "number")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            mark(node.operand, "number")
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            for part, peer in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
                ordered = isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
                if ordered and isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
                    mark(part.left, "number")
                    mark(part.right, "number")
                # Agents seldom compare texts by `<`: assume that the operands are numbers.
                if ordered or (self.of(peer) == "number" and isinstance(peer, ast.Constant)):
                    mark(part, "number")
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            kind = self.of(node.value)
            if kind != "other":
                mark(node.targets[0], kind)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, *ARITHMETIC)):
            if self.of(node.value) == "number":
                mark(node.target, "number")
        elif isinstance(node, ast.For | ast.comprehension):
            self._learn_loop(node, mark)

    def _learn_loop(
        self, node: ast.For | ast.comprehension, mark: Callable[[ast.expr, Kind], None]
    ) -> None:
        called = node.iter
        if isinstance(called, ast.Name | ast.Attribute):
            mark(called, "list")
        if isinstance(called, ast.Call) and isinstance(called.func, ast.Name):
            if called.func.id == "range":
                mark(node.target, "number")
            if called.func.id == "enumerate" and isinstance(node.target, ast.Tuple):
                mark(node.target.elts[0], "number")

    def _form(self, node: ast.expr) -> Kind:
        """The kind of an expression by its form."""
        match node:
            case ast.Constant(value=bool()):
                return "truth"
            case ast.Constant(value=int() | float()):
                return "number"
            case ast.Constant(value=str()) | ast.JoinedStr():
                return "text"
            case ast.List() | ast.ListComp() | ast.Tuple() | ast.GeneratorExp():
                return "list"
            case ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return "truth"
            case ast.UnaryOp():
                return "number"
            case ast.BinOp(op=ast.Add()):
                sides = {self.of(node.left), self.of(node.right)}
                if "number" in sides:
                    return "number"
                return "text" if "text" in sides else "list" if "list" in sides else "other"
            case ast.BinOp(op=ast.Mod()) if self.of(node.left) == "text":
                return "text"
            case ast.BinOp(op=ast.Mult()) if {"text", "list"} & {
                self.of(node.left),
                self.of(node.right),
            }:
                return "other"
            case ast.BinOp():
                return "number" if isinstance(node.op, ARITHMETIC) else "other"
            case ast.IfExp():
                return self.of(node.body)
            case ast.Call():
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name in NUMERIC_CALLS:
                    return "number"
                if name in ("min", "max") and node.args and not node.keywords:
                    return self.of(node.args[0]) if len(node.args) > 1 else "other"
                return "list" if name in LIST_CALLS else "text" if name in TEXT_CALLS else "other"
        return "other"


def shapes_of(values: Iterable[Any]) -> Shapes:
    """Shapes of the objects within JSON values.

    Args:
        values: Task inputs.
    """
    shapes: dict[tuple[tuple[str, Kind], ...], None] = {}
    waiting = list(values)
    for _ in range(MAX_VALUES_EXAMINED):
        if not waiting:
            break
        value = waiting.pop()
        if isinstance(value, dict):
            shape = tuple((key, _kind_of(part)) for key, part in value.items() if type(key) is str)
            shapes[shape] = None
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value[:ITEMS])
    return tuple(sorted(shapes))


def _kind_of(value: Any) -> Kind:
    match value:
        case bool():
            return "truth"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list() | tuple():
            return "list"
    return "other"


def _annotated(annotation: ast.expr | None) -> Kind | None:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        name = annotation.value
    elif isinstance(annotation, ast.Subscript):
        name = ast.unparse(annotation.value)
    else:
        name = ast.unparse(annotation) if annotation is not None else ""
    kinds: dict[str, Kind] = {"int": "number", "float": "number", "bool": "truth", "str": "text"}
    if name.lower() in ("list", "sequence", "tuple"):
        return "list"
    return kinds.get(name)
