"""A calculator: the value of an arithmetic expression, and of nothing else."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

TWO: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
LONGEST = 200


def value_of(expression: str) -> float:
    """Its value.

    Raises:
        ValueError: It is no arithmetic of numbers, or too long, or divides by 0.
    """
    if len(expression) > LONGEST:
        raise ValueError(f"an expression has at most {LONGEST} characters")
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ZeroDivisionError, OverflowError, RecursionError) as error:
        raise ValueError(f"{expression!r} has no value: {error}") from None


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in TWO:
            return TWO[type(sign)](_value(left), _value(right))
    raise ValueError(f"a calculator knows numbers, + - * / and brackets, no {ast.unparse(node)}")
