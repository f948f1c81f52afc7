"""The values that queries compare columns with, and their boundary values."""

from __future__ import annotations

import datetime
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlglot import exp

Kind = Literal["integer", "real", "text", "date", ""]

_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)(.*)", re.DOTALL)
_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_DATES = (exp.TimeToStr, exp.StrToTime, exp.Year, exp.Month, exp.Day, exp.Date, exp.TsOrDsToDate)


@dataclass
class ColumnUse:
    """How queries use columns with a name."""

    values: list[Any] = field(default_factory=list)
    """Values at which the result may change."""
    counts_as_number: bool = False
    counts_as_text: bool = False
    counts_as_date: bool = False

    @property
    def kind(self) -> Kind:
        """The type that its use suggests; empty if none."""
        texts = [value for value in self.values if isinstance(value, str)]
        if self.counts_as_date:
            return "date"
        if texts:
            return "date" if all(_DATE.match(text) for text in texts) else "text"
        if self.counts_as_text:
            return "text"
        if any(isinstance(value, float) for value in self.values):
            return "real"
        return "integer" if self.values or self.counts_as_number else ""


@dataclass
class QueryUse:
    """What queries reveal about the values of their tables."""

    columns: dict[str, ColumnUse] = field(default_factory=lambda: defaultdict(ColumnUse))
    """By name in lower case; columns of the same name share their values."""
    counts: set[int] = field(default_factory=set)
    """Numbers of rows at which the result may change, from LIMIT and HAVING."""


def uses(trees: Iterable[exp.Expr], columns: frozenset[str]) -> QueryUse:
    """The values that queries compare their columns with.

    Args:
        trees: The queries.
        columns: Known names in lower case; a quoted name that is none of them is a text to SQLite.
            Empty when unknown.
    """
    query_use = QueryUse()
    linked: list[tuple[str, str]] = []
    for tree in trees:
        count_names = {
            alias.alias.lower()
            for alias in tree.find_all(exp.Alias)
            if isinstance(alias.this, exp.Count) and alias.alias
        }
        for node in tree.walk():
            if isinstance(node, _COMPARED):
                _read_comparison(query_use, linked, node.this, node.expression, columns)
                _read_counts(query_use, node, count_names)
            elif isinstance(node, _DATES):
                for column in node.find_all(exp.Column):
                    query_use.columns[column.name.lower()].counts_as_date = True
            elif isinstance(node, exp.Between):
                for bound in (node.args["low"], node.args["high"]):
                    _read_comparison(query_use, linked, node.this, bound, columns)
            elif isinstance(node, exp.In):
                for member in node.expressions:
                    _read_comparison(query_use, linked, node.this, member, columns)
                query = node.args.get("query")
                inner = query.this if isinstance(query, exp.Subquery) else query
                if isinstance(inner, exp.Select) and len(inner.expressions) == 1:
                    _link(linked, node.this, inner.expressions[0])
            elif isinstance(node, (exp.Like, exp.ILike, exp.Glob)):
                _read_pattern(query_use, node)
            elif isinstance(node, (exp.Limit, exp.Offset)):
                for value in _constants(node.expression):
                    if isinstance(value, int):
                        query_use.counts |= {value, value + 1}
            elif isinstance(node, (exp.Sum, exp.Avg, exp.Add, exp.Sub, exp.Mul, exp.Div)):
                for column in node.find_all(exp.Column):
                    if not _is_text(column, columns):
                        query_use.columns[column.name.lower()].counts_as_number = True
    for left, right in linked * 2:
        together = [*query_use.columns[left].values, *query_use.columns[right].values]
        query_use.columns[left].values = list(dict.fromkeys(together))
        query_use.columns[right].values = list(dict.fromkeys(together))
    return query_use


def is_date(value: Any) -> bool:
    """Whether a value is the text of a date."""
    return isinstance(value, str) and _DATE.match(value) is not None


def _read_comparison(
    query_use: QueryUse,
    linked: list[tuple[str, str]],
    first: exp.Expr,
    second: exp.Expr,
    column_names: frozenset[str],
) -> None:
    left, right = _columns(first, column_names), _columns(second, column_names)
    if left and right:
        if isinstance(first, exp.Column) and isinstance(second, exp.Column):
            linked.append((left[0].name.lower(), right[0].name.lower()))
        for value in (*_constants(first), *_constants(second)):
            for column in (*left, *right):
                _add(query_use, column, value, first, plain=True)
        return
    side, constant, columns = (first, second, left) if left else (second, first, right)
    for value in _constants(constant):
        if isinstance(value, int) and side.find(exp.Count):
            query_use.counts |= {max(0, value - 1), value, value + 1}
        for column in columns:
            _add(query_use, column, value, side)
    if isinstance(constant, exp.Column):  # a quoted text
        for column in columns:
            _add(query_use, column, constant.name, side)


def _read_counts(query_use: QueryUse, node: exp.Expr, count_names: set[str]) -> None:
    """Numbers compared with a count under its name in a subquery."""
    for side, bound in ((node.this, node.expression), (node.expression, node.this)):
        if isinstance(side, exp.Column) and side.name.lower() in count_names:
            for value in _constants(bound):
                if isinstance(value, int):
                    query_use.counts |= {max(0, value - 1), value, value + 1}


def _add(
    query_use: QueryUse, column: exp.Column, value: Any, side: exp.Expr, plain: bool = False
) -> None:
    use = query_use.columns[column.name.lower()]
    if isinstance(value, str):
        if side.find(*_DATES) and not _DATE.match(value):
            use.values += _dates_with(value)
            return
        if side.find(exp.Length):
            return
        use.values += _texts_around(value)
    elif side.find(exp.Length) and not plain:
        size = max(1, int(value))
        use.values += ["abcdefghijklmnopqrst"[: min(20, n)] for n in (size - 1, size, size + 1)]
        use.counts_as_text = True
    elif side.find(exp.Count):
        return
    else:
        for number in (value, *_solved(side, value)):
            use.values += _numbers_around(number)
        if side.find(exp.Sum):
            use.values += [value // 2 if isinstance(value, int) else value / 2]


def _texts_around(value: str) -> list[str]:
    date = _DATE.match(value)
    if date:
        try:
            day = datetime.date(int(date[1]), int(date[2]), int(date[3]))
            days = [day + datetime.timedelta(days=n) for n in (-1, 0, 1)]
        except (ValueError, OverflowError):
            return [value]
        suffix = date[4]
        return [f"{nearby.isoformat()}{suffix}" for nearby in days]
    return list(dict.fromkeys([value, value.swapcase(), f"{value}x", value.lower()]))


def _numbers_around(value: float) -> list[float]:
    if isinstance(value, int):
        return [value - 1, value, value + 1]
    return [value - 0.5, value, value + 0.5, round(value - 0.01, 6), round(value + 0.01, 6)]


def _solved(side: exp.Expr, value: float) -> Iterator[float]:
    """Values of the column at which an arithmetic expression reaches a constant."""
    for node in side.find_all(exp.Mul, exp.Div, exp.Add, exp.Sub, exp.Mod):
        for constant in (*_constants(node.this), *_constants(node.expression)):
            if isinstance(constant, str):
                continue
            if isinstance(node, exp.Mul) and constant:
                yield value / constant if value % constant else value // constant
            elif isinstance(node, exp.Div):
                yield value * constant
            elif isinstance(node, exp.Add):
                yield value - constant
            elif isinstance(node, exp.Sub):
                yield from (value + constant, constant - value)
            elif isinstance(node, exp.Mod):
                yield from (constant, 2 * constant + value)


def _dates_with(value: str) -> list[str]:
    """Dates that a text is part of: a year, a month, a day."""
    if re.fullmatch(r"\d{4}", value):
        year = int(value)
        return [
            f"{y:04d}-{d}"
            for y, d in itertools.product((year - 1, year, year + 1), ("01-01", "06-15", "12-31"))
        ]
    if re.fullmatch(r"\d{4}-\d\d", value):
        return [f"{value}-01", f"{value}-28", f"{int(value[:4]) - 1}{value[4:]}-15", "2021-07-15"]
    if re.fullmatch(r"\d\d", value):
        return [f"2020-{value}-01", f"2021-{value}-28", f"2020-01-{value}", "2020-07-15"]
    return [value]


def _read_pattern(query_use: QueryUse, node: exp.Expr) -> None:
    pattern = node.expression
    if not isinstance(pattern, exp.Literal):
        return
    text = pattern.this
    star, single = ("*", "?") if isinstance(node, exp.Glob) else ("%", "_")
    empty = text.replace(star, "").replace(single, "q")
    filled = text.replace(star, "mn").replace(single, "q")
    texts = [empty, filled, f"z{empty}", f"{empty}z", f"z{empty}z", empty.swapcase(), empty[:-1]]
    for column in node.this.find_all(exp.Column):
        use = query_use.columns[column.name.lower()]
        use.values += list(dict.fromkeys(texts))
        use.counts_as_text = True


def _link(linked: list[tuple[str, str]], left: exp.Expr, right: exp.Expr) -> None:
    right = right.unalias()
    if isinstance(left, exp.Column) and isinstance(right, exp.Column):
        linked.append((left.name.lower(), right.name.lower()))


def _columns(node: exp.Expr, column_names: frozenset[str]) -> list[exp.Column]:
    columns = [node] if isinstance(node, exp.Column) else list(node.find_all(exp.Column))
    return [column for column in columns if not _is_text(column, column_names)]


def _is_text(column: exp.Column, column_names: frozenset[str]) -> bool:
    """Whether SQLite reads a quoted name as a text, because no column has the name."""
    name = column.this
    return (
        isinstance(name, exp.Identifier)
        and name.quoted
        and not column.table
        and bool(column_names)
        and name.this.lower() not in column_names
    )


def _constants(node: exp.Expr) -> list[Any]:
    """The literals of an expression that holds no subquery."""
    if isinstance(node, (exp.Subquery, exp.Query)):
        return []
    constants: list[Any] = []
    for literal in node.find_all(exp.Literal):
        value: Any = literal.this
        if not literal.is_string:
            try:
                value = int(value) if re.fullmatch(r"\d+", value) else float(value)
            except ValueError:
                continue
            if isinstance(literal.parent, exp.Neg):
                value = -value
            if abs(value) > 2**53:
                continue
        constants.append(value)
    return constants
