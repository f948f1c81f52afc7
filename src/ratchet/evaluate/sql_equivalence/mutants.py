"""Small changes to a query, which a good database reveals by a changed result.

The kinds follow the mutation operators for SQL of Tuya, Suárez-Cabal and de la Riva (2007).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from sqlglot import exp

from ratchet.evaluate.sql_equivalence.parsing import in_sqlite

MAX_MUTANTS = 40

_OPERATORS: dict[type[exp.Expr], tuple[type[exp.Binary], ...]] = {
    exp.GT: (exp.GTE, exp.LT),
    exp.GTE: (exp.GT, exp.EQ),
    exp.LT: (exp.LTE, exp.GT),
    exp.LTE: (exp.LT, exp.EQ),
    exp.EQ: (exp.NEQ, exp.GTE),
    exp.NEQ: (exp.EQ,),
    exp.And: (exp.Or,),
    exp.Or: (exp.And,),
    exp.Add: (exp.Sub,),
    exp.Sub: (exp.Add,),
    exp.Mul: (exp.Add,),
}
_AGGREGATES: dict[type[exp.Expr], tuple[type[exp.Func], ...]] = {
    exp.Sum: (exp.Avg, exp.Max),
    exp.Avg: (exp.Sum, exp.Max),
    exp.Max: (exp.Min,),
    exp.Min: (exp.Max,),
}


def mutants(tree: exp.Expr) -> list[str]:
    """Mutants of a query in SQLite's dialect; at most MAX_MUTANTS, spread over the query."""
    original = in_sqlite(tree)
    texts: dict[str, None] = {}
    for number, node in enumerate(tree.walk()):
        for change in _changes(node):
            copy = tree.copy()
            twin = next(copied_node for at, copied_node in enumerate(copy.walk()) if at == number)
            try:
                change(twin)
                text = in_sqlite(copy)
            except (ValueError, AttributeError, TypeError, KeyError):
                continue  # a change that does not fit this place
            if text != original:
                texts[text] = None
    listed = list(texts)
    step = max(1, -(-len(listed) // MAX_MUTANTS))
    return listed[::step]


_Change = Callable[[exp.Expr], object]


def _changes(node: exp.Expr) -> Iterator[_Change]:
    for operator in _OPERATORS.get(type(node), ()):
        yield partial(_exchange, operator)
    for aggregate in _AGGREGATES.get(type(node), ()):
        yield partial(_aggregate, aggregate)
    if isinstance(node, (exp.And, exp.Or)):
        if isinstance(node.this.unnest(), (exp.And, exp.Or)):
            yield _regroup
        yield lambda n: n.replace(n.this.copy())
        yield lambda n: n.replace(n.expression.copy())
    elif isinstance(node, exp.Literal) and not isinstance(node.parent, exp.Interval):
        yield from _literals(node)
    elif isinstance(node, exp.Select):
        if not node.find(exp.AggFunc):
            yield lambda n: n.set("distinct", None if n.args.get("distinct") else exp.Distinct())
        for clause in ("where", "having", "limit", "group"):
            if node.args.get(clause) is not None:
                yield partial(_drop, clause)
    elif isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
        yield _count_column
    elif isinstance(node, exp.Count):
        if isinstance(node.this, exp.Distinct):
            yield lambda n: n.set("this", n.this.expressions[0].copy())
        elif isinstance(node.this, exp.Column):
            yield lambda n: n.set("this", exp.Distinct(expressions=[n.this.copy()]))
            yield lambda n: n.set("this", exp.Star())
    elif isinstance(node, exp.Join):
        if not node.args.get("kind") or node.args.get("kind") == "INNER":
            yield lambda n: n.set("side", None if n.args.get("side") else "LEFT")
    elif isinstance(node, exp.Ordered):
        yield lambda n: n.set("desc", not n.args.get("desc"))
    elif isinstance(node, exp.SetOperation):
        yield lambda n: n.set("distinct", not n.args.get("distinct"))
    elif isinstance(node, exp.Not):
        yield lambda n: n.replace(n.this.copy())
    elif isinstance(node, (exp.Is, exp.In, exp.Exists, exp.Like)):
        if not isinstance(node.parent, exp.Not):
            yield lambda n: n.replace(exp.Not(this=n.copy()))
    elif isinstance(node, exp.Between):
        for kind, bound in ((exp.GT, "low"), (exp.LT, "high")):
            yield partial(_without_bound, kind, bound)
    elif isinstance(node, exp.Coalesce):
        yield lambda n: n.replace(n.this.copy())


def _exchange(operator: type[exp.Binary], node: exp.Expr) -> None:
    node.replace(operator(this=node.this.copy(), expression=node.expression.copy()))


def _regroup(node: exp.Expr) -> None:
    """(a OR b) AND c becomes a OR (b AND c)."""
    inner = node.this.unnest()
    last = type(node)(this=inner.expression.copy(), expression=node.expression.copy())
    node.replace(type(inner)(this=inner.this.copy(), expression=exp.Paren(this=last)))


def _count_column(node: exp.Expr) -> None:
    """COUNT(*) becomes COUNT of the first column of the query."""
    select = node.parent_select
    column = next(select.find_all(exp.Column), None) if select is not None else None
    if column is None:
        raise ValueError("there is no column")
    node.set("this", column.copy())


def _aggregate(aggregate: type[exp.Func], node: exp.Expr) -> None:
    node.replace(aggregate(this=node.this.copy()))


def _drop(clause: str, node: exp.Expr) -> None:
    node.set(clause, None)


def _without_bound(kind: type[exp.Binary], bound: str, node: exp.Expr) -> None:
    beyond = kind(this=node.this.copy(), expression=node.args[bound].copy())
    node.replace(exp.And(this=node.copy(), expression=beyond))


def _literals(node: exp.Literal) -> Iterator[_Change]:
    if node.is_string:
        yield lambda n: n.set("this", f"{n.this}x")
        if node.this.swapcase() != node.this:
            yield lambda n: n.set("this", n.this.swapcase())
    elif node.this.isdigit():
        yield lambda n: n.set("this", str(int(n.this) + 1))
        if int(node.this) > 0:
            yield lambda n: n.set("this", str(int(n.this) - 1))
