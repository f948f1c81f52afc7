"""Novelty filter: refuses candidates that differ from earlier ones only in form.

The normal form of a text is its lines without order, case, punctuation and filler words; that of
code, its syntax tree without docstrings, annotations and local variable names, with the operands of
sums and products sorted. Numbers are always significant.
"""

from __future__ import annotations

import ast
import re

from ratchet.types import Candidate, Code, PromptTemplate, Resource, content_hash, version_of

_FILLER = (
    "a an and are as be by for from in is it its of on or please that the then these this those to"
    " was were will with you your"
)
FILLER = frozenset(_FILLER.split())
"""Words without effect on an instruction's meaning. Excludes negations and numbers."""

WORD = re.compile(r"[^\W_]+|[{}<>=+*/%&|^~$#@-]")

COMMUTES = (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)


def normal_form(resource: Resource) -> str:
    """A canonical text, equal for resources that differ only in form."""
    if isinstance(resource, PromptTemplate):
        return f"{resource.engine}\n{_normal_text(resource.text)}"
    if isinstance(resource, Code):
        return _normal_code(resource.source)
    return version_of(resource)


class Novelty:
    """The candidates seen so far, by normal form."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}

    def refusal(self, candidate: Candidate) -> str:
        """Why a candidate is not new; empty if it is new, and it is then recorded."""
        form = content_hash({name: normal_form(r) for name, r in candidate.resources.items()})
        known = self._seen.get(form)
        if known is None:
            self._seen[form] = candidate.id
            return ""
        if known == candidate.id:
            return "It was tried before."
        return f"It differs from candidate {known[:8]} only in form."


def _normal_text(text: str) -> str:
    lines = {
        " ".join(word for word in WORD.findall(line.casefold()) if word not in FILLER)
        for line in text.splitlines()
    }
    return "\n".join(sorted(lines - {""}))


def _normal_code(source: str) -> str:
    tree = ast.parse(source)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    arguments = function.args
    kept = {
        arg.arg
        for arg in (
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            *filter(None, (arguments.vararg, arguments.kwarg)),
        )
    }
    return ast.dump(_Normal(_locals(function) - kept).visit(tree))


def _locals(function: ast.AST) -> set[str]:
    names: set[str] = set()
    outer: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node is not function:
            names.add(node.name)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            outer.update(node.names)
    return names - outer


class _Normal(ast.NodeTransformer):
    """Removes from a tree what does not affect behaviour."""

    def __init__(self, local: set[str]) -> None:
        self._local = local
        self._names: dict[str, str] = {}

    def _named(self, name: str) -> str:
        if name not in self._local:
            return name
        return self._names.setdefault(name, f"local{len(self._names)}")

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self._named(node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(self._named(node.arg))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self._named(node.name)
        node.returns = None
        node.body = _without_docstring(node.body)
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.name = self._named(node.name)
        node.returns = None
        node.body = _without_docstring(node.body)
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return None
        made: ast.AST = self.visit(ast.Assign([node.target], node.value))
        return made

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is float:
            return ast.Constant(float(f"{node.value:.6g}"))
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, COMMUTES) and ast.dump(node.right) < ast.dump(node.left):
            # Sums of texts and lists do not commute: sort only sums that contain a number.
            if isinstance(node.op, ast.Add) and not (_number(node.left) or _number(node.right)):
                return node
            node.left, node.right = node.right, node.left
        return node


def _number(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _number(node.left) or _number(node.right)
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        return body[1:] or [ast.Pass()]
    return body
