"""Locate a resource in a Python file: the declaring call or `def`, found by name in the AST.

Nothing is imported or run. A `SourceSlot` is one editable location: a parameter's default, a
prompt's text, a model's field or a function's source, with its byte span and its value.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeGuard

from ratchet.ship.source_file import SourceFile, TextRange
from ratchet.types import Code, ShipError

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_KNOBS: Final = ("Int", "Float", "Choice", "Bool")
_STRIPS: Final = ("strip", "lstrip", "rstrip")


class _Unreadable:
    """Stands for the value of a slot that holds no literal."""

    def __repr__(self) -> str:
        return "an expression"


UNREADABLE: Final = _Unreadable()


class NotLiteral(Exception):
    """An expression cannot be evaluated from the source alone."""


@dataclass(frozen=True)
class SourceSlot:
    """A part of a declaration that a patch may rewrite."""

    key: str
    """Name of the parameter or field; `text` for a prompt, `source` for a function."""
    node: ast.expr | FunctionNode
    span: TextRange
    """Byte offsets in the file, end excluded."""
    line: int
    """1-based."""
    value: Any
    """The present value in the source; UNREADABLE when it is not a literal."""
    as_float: bool = False
    """The parameter is a Float, so an integer literal means a float."""
    problem: str = ""
    """Why it cannot be rewritten, as a clause; empty when it can."""
    unclear: bool = False
    """It cannot be determined which of a name's assignments gives the value."""


def find_slots(
    source: SourceFile, kind: str, name: str, qualname: str | None
) -> dict[str, SourceSlot]:
    """The slots of one declaration, by key.

    Args:
        source: The file that contains it.
        kind: One of prompt, params, model, code.
        name: The resource's name.
        qualname: For code, the function's qualified name.

    Raises:
        ShipError: The declaration is missing or ambiguous.
    """
    if kind == "code":
        node = find_function(source, qualname or name)
        return {"source": _function_slot(source, node)}
    call = _find_call(source, kind, name)
    if kind == "prompt":
        slot = _expression_slot(source, "text", _argument(call, 1, "default"), fold=True)
        return {"text": slot} if slot else {}
    slots: dict[str, SourceSlot] = {}
    value = None
    if kind == "model" and (value := _argument(call, 1, "default")):
        slots["model"] = _value_slot(source, "model", value)
    for keyword in call.keywords:
        if keyword.arg is None:
            mapping, _ = follow(source, keyword.value)
            for key, entry in _entries(mapping):
                slots.setdefault(key, _value_slot(source, key, entry))
            continue
        if keyword.arg in slots:
            continue
        if (keyword.arg == "name" and not call.args) or keyword.value is value:
            continue
        if kind == "model" and keyword.arg == "choices":
            continue  # what may take its place is not its value
        slots[keyword.arg] = _value_slot(source, keyword.arg, keyword.value)
    return slots


def splats(source: SourceFile, kind: str, name: str) -> list[ast.expr]:
    """The expressions of a declaring call's `**`; raises as `find_slots` does."""
    call = _find_call(source, kind, name)
    return [keyword.value for keyword in call.keywords if keyword.arg is None]


def _entries(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Entries of a dictionary whose keys are all written out."""
    if isinstance(node, ast.Dict):
        keys = [
            key.value
            for key in node.keys
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        ]
        if len(keys) == len(node.values) == len(set(keys)):
            yield from zip(keys, node.values, strict=True)


def declaring_line(source: SourceFile, kind: str, name: str, qualname: str | None) -> int:
    """1-based line of the declaring call or `def`; raises as `find_slots` does."""
    if kind == "code":
        return find_function(source, qualname or name).lineno
    return _find_call(source, kind, name).lineno


def _find_call(source: SourceFile, kind: str, name: str) -> ast.Call:
    calls = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and source.is_ratchet(node.func, kind)
        and _names(source, node) == name
    ]
    if not calls:
        raise ShipError(
            f'{source.path} holds no ratchet.{kind}("{name}", …) that can be found statically.',
            hint="Write the name as a string literal, and call it through `import ratchet`.",
        )
    if len(calls) > 1:
        lines = ", ".join(str(node.lineno) for node in calls)
        raise ShipError(
            f'{source.path} declares ratchet.{kind}("{name}", …) more than once: lines {lines}.',
            hint="Keep one of them.",
        )
    return calls[0]


def _names(source: SourceFile, call: ast.Call) -> str | None:
    argument = _argument(call, 0, "name")
    if argument is None:
        return None
    node, _ = follow(source, argument)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _argument(call: ast.Call, position: int, *keywords: str) -> ast.expr | None:
    if any(isinstance(argument, ast.Starred) for argument in call.args[: position + 1]):
        return None
    if len(call.args) > position:
        return call.args[position]
    for keyword in call.keywords:
        if keyword.arg in keywords:
            return keyword.value
    return None


def _value_slot(source: SourceFile, key: str, node: ast.expr) -> SourceSlot:
    target, problem = follow(source, node)
    as_float = False
    if isinstance(target, ast.Call) and source.is_ratchet(target.func, *_KNOBS):
        as_float = source.is_ratchet(target.func, "Float")
        default = _argument(target, 0, "default")
        if default is None:
            return _slot(source, key, target, UNREADABLE, problem="its default is not written out")
        slot = _expression_slot(source, key, default, fold=False, problem=problem)
    else:
        slot = _expression_slot(source, key, node, fold=False)
    assert slot is not None
    if as_float and type(slot.value) is int:
        return _slot(source, key, slot.node, float(slot.value), slot.problem, as_float=True)
    return _slot(source, key, slot.node, slot.value, slot.problem, as_float=as_float)


def _expression_slot(
    source: SourceFile, key: str, node: ast.expr | None, *, fold: bool, problem: str = ""
) -> SourceSlot | None:
    if node is None:
        return None
    target, follow_problem = follow(source, node)
    try:
        value = fold_text(source, target) if fold else _literal(target)
    except NotLiteral as error:
        slot = _slot(source, key, target, UNREADABLE, problem or follow_problem or str(error))
        return replace(slot, unclear=bool(follow_problem))
    return _slot(source, key, target, value, problem or follow_problem)


def _slot(
    source: SourceFile,
    key: str,
    node: ast.expr | FunctionNode,
    value: Any,
    problem: str = "",
    as_float: bool = False,
) -> SourceSlot:
    return SourceSlot(key, node, source.span(node), node.lineno, value, as_float, problem)


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise NotLiteral("it is an expression, not a literal") from None


def follow(source: SourceFile, node: ast.expr) -> tuple[ast.expr, str]:
    """The value of a constant of the module or a class, and why it may not be rewritten.

    Names that the file imports have no value here, and are returned as they are.
    """
    owner: ast.Module | ast.ClassDef = source.tree
    if isinstance(node, ast.Name):
        name = node.id
        if _is_imported(source.tree, node.id) and _bindings(source.tree, node.id) == 1:
            return node, ""
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        classes = [
            statement
            for statement in source.tree.body
            if isinstance(statement, ast.ClassDef) and statement.name == node.value.id
        ]
        if len(classes) != 1 or _bindings(source.tree, node.value.id) != 1:
            return node, ""
        name, owner = node.attr, classes[0]
    else:
        return node, ""
    values = [
        statement.value
        for statement in owner.body
        if (isinstance(statement, ast.Assign) and _is_name(statement.targets, name))
        or (isinstance(statement, ast.AnnAssign) and _is_name([statement.target], name))
    ]
    dotted = ast.unparse(node)
    if len(values) != 1 or values[0] is None or _bindings(owner, name) != 1:
        where = f"class {owner.name}" if isinstance(owner, ast.ClassDef) else "the file"
        return node, f"the name {dotted} is not assigned exactly once at the top of {where}"
    uses = [
        use.lineno
        for use in ast.walk(source.tree)
        if (isinstance(use, ast.Name) and use.id == name and isinstance(use.ctx, ast.Load))
        or (isinstance(node, ast.Attribute) and _sets_or_reads(use, name))
    ]
    if len(uses) > 1:
        lines = sorted(set(uses))
        on = (
            f"on lines {', '.join(map(str, lines))}"
            if len(lines) > 1
            else f"twice on line {lines[0]}"
        )
        return values[0], f"the constant {dotted} is used {on}"
    return values[0], ""


def _is_imported(tree: ast.Module, name: str) -> bool:
    return any(
        isinstance(node, ast.alias) and name in (node.asname, node.name) for node in ast.walk(tree)
    )


def _sets_or_reads(node: ast.AST, attribute: str) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and node.attr == attribute


def _is_name(targets: list[ast.expr], name: str) -> bool:
    return len(targets) == 1 and isinstance(targets[0], ast.Name) and targets[0].id == name


def _bindings(tree: ast.AST, name: str) -> int:
    count = 0
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=bound, ctx=ast.Store() | ast.Del()) | ast.arg(arg=bound):
                count += bound == name
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                count += node.name == name
            case ast.alias():
                count += (node.asname or node.name.partition(".")[0]) == name
            case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
                count += node.name == name
            case ast.MatchMapping():
                count += node.rest == name
    return count


def unwrap(source: SourceFile, node: ast.expr) -> tuple[ast.expr, tuple[str, ...]]:
    """The literal inside `dedent(…)`, `cleandoc(…)`, `.strip()`, and the calls, innermost first."""
    wrappers: list[str] = []
    while isinstance(node, ast.Call) and not node.keywords:
        origin = source.origin(node.func)
        if origin in ("textwrap.dedent", "inspect.cleandoc") and len(node.args) == 1:
            wrappers.append(origin)
            node = node.args[0]
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _STRIPS and not node.args:
            wrappers.append(node.func.attr)
            node = node.func.value
        else:
            break
    return node, tuple(reversed(wrappers))


def apply_wrappers(text: str, wrappers: tuple[str, ...]) -> str:
    """Apply the wrappers found by `unwrap` to a literal's text."""
    for wrapper in wrappers:
        if wrapper == "textwrap.dedent":
            text = textwrap.dedent(text)
        elif wrapper == "inspect.cleandoc":
            text = inspect.cleandoc(text)
        else:
            text = getattr(text, wrapper)()
    return text


def fold_text(source: SourceFile, node: ast.expr) -> str:
    """Evaluate a text expression made of literals.

    Raises:
        NotLiteral: It contains anything else.
    """
    inner, wrappers = unwrap(source, node)
    if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
        return apply_wrappers(inner.value, wrappers)
    if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Add):
        both = fold_text(source, inner.left) + fold_text(source, inner.right)
        return apply_wrappers(both, wrappers)
    if isinstance(inner, ast.JoinedStr):
        raise NotLiteral("it is an f-string")
    raise NotLiteral("it is an expression, not a string literal")


def find_function(source: SourceFile, qualname: str) -> FunctionNode:
    """The `def` of a qualified name.

    Raises:
        ShipError: There is none, or more than one.
    """
    functions = [node for name, node in _functions(source.tree, "") if name == qualname]
    if not functions:
        raise ShipError(
            f"{source.path} holds no function {qualname}.",
            hint="Check whether it was renamed or moved.",
        )
    if len(functions) > 1:
        lines = ", ".join(str(node.lineno) for node in functions)
        raise ShipError(
            f"{source.path} defines {qualname} more than once: lines {lines}.",
            hint="Keep one of them.",
        )
    return functions[0]


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, FunctionNode]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + child.name, child
            yield from _functions(child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def _function_slot(source: SourceFile, node: FunctionNode) -> SourceSlot:
    # A trailing comment on the last line belongs to the function.
    assert node.end_lineno is not None
    span = (source.span(node)[0], source.line_end(node.end_lineno))
    return SourceSlot("source", node, span, node.lineno, meaning_of_node(node))


def meaning_of_node(node: FunctionNode) -> str:
    """A function's syntax without decorators, comments and layout."""
    bare = type(node)(**dict(ast.iter_fields(node)))
    bare.decorator_list = []
    if bare.body and isinstance(bare.body[0], ast.Expr):
        first = bare.body[0].value
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            # Dedenting a method dedents its docstring too; ignore the docstring's indentation.
            cleaned = ast.Expr(ast.Constant(inspect.cleandoc(first.value)))
            bare.body = [cleaned, *bare.body[1:]]
    return ast.dump(bare)


def meaning_of(code: Code) -> str:
    """The meaning of a code resource's source; see `meaning_of_node`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        node = ast.parse(code.source).body[0]
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    return meaning_of_node(node)
