"""The order that a query requires of its result, and which rows tie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from ratchet.evaluate.sql_equivalence.execution import Row
from ratchet.evaluate.sql_equivalence.parsing import in_sqlite


@dataclass(frozen=True)
class Ordering:
    """The order of a query's result."""

    keyed: str
    """The query in SQLite's dialect, without its limit; sort keys may follow its columns."""
    added: int
    """Number of columns that `keyed` adds."""
    columns: tuple[int, ...]
    """Columns that are sort keys, if `keyed` adds none."""
    offset: int

    def with_keys(self, rows: Sequence[Row]) -> tuple[list[Row], int]:
        """The rows of `keyed`, each followed by its sort keys, and the number of its columns."""
        width = (len(rows[0]) if rows else self.added) - self.added
        if self.added:
            return list(rows), width
        return [(*row, *(row[at] for at in self.columns)) for row in rows], width


def is_ordered(tree: exp.Expr) -> bool:
    """Whether the query itself orders its result; an order within a subquery does not count."""
    return tree.args.get("order") is not None


def ordering(tree: exp.Expr) -> Ordering | None:
    """The order of a query; None if its ties cannot be determined.

    Args:
        tree: A query that `is_ordered`.
    """
    bare = tree.copy()
    offset = _whole(bare.args.get("offset"))
    keys = [
        ordered.this
        for ordered in bare.args["order"].expressions
        if isinstance(ordered, exp.Ordered)
    ]
    if offset is None or _has_words_in_limit(bare):
        return None
    bare.set("limit", None)
    bare.set("offset", None)
    first = bare
    while isinstance(first, exp.SetOperation):
        first = first.this
    if not isinstance(first, exp.Select):
        return None
    selected = list(first.expressions)
    places = {
        column.alias_or_name.lower(): at
        for at, column in enumerate(selected)
        if column.alias_or_name
    }
    has_star = any(column.is_star for column in selected)
    at = [_position(key, places, selected) for key in keys]
    try:
        if not has_star and all(place is not None for place in at):
            return Ordering(
                in_sqlite(bare), 0, tuple(place for place in at if place is not None), offset
            )
        if first is not bare or bare.args.get("distinct"):
            return None
        for number, (key, place) in enumerate(zip(keys, at, strict=True)):
            value = key if place is None else selected[place].unalias()
            bare.append("expressions", exp.alias_(value.copy(), f"sort_key_{number}"))
        return Ordering(in_sqlite(bare), len(keys), (), offset)
    except ValueError:
        return None


def _position(key: exp.Expr, places: dict[str, int], selected: Sequence[exp.Expr]) -> int | None:
    """The column of the result that a sort key is."""
    if isinstance(key, exp.Literal) and not key.is_string:
        at = int(key.this) - 1 if key.this.isdigit() else -1
        return at if 0 <= at < len(selected) else None
    if isinstance(key, exp.Column) and not key.table:
        return places.get(key.name.lower())
    return next((at for at, column in enumerate(selected) if column.unalias() == key), None)


def _whole(node: exp.Expr | None) -> int | None:
    if node is None:
        return 0
    value = node.expression
    if not isinstance(value, exp.Literal) or value.is_string or not value.this.isdigit():
        return None
    return int(value.this)


def _has_words_in_limit(tree: exp.Expr) -> bool:
    limit = tree.args.get("limit")
    return limit is not None and not isinstance(limit.expression, exp.Literal)
