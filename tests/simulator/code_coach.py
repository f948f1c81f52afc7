"""The simulated coach as a programmer: seeded mutations of a Python function, most of them small.

It understands nothing of what the code is for. It changes constants, comparisons, operators, the
order of statements and of calls, and sometimes breaks what it touches, as models do.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.simulator.shown import Shown

BREAKS = 0.06
"""How often a rewrite does not parse, loses its signature or imports what is not there."""

_BLOCK = re.compile(r"(?s)#\s*EVOLVE-BLOCK-START[^\n]*\n(.*?)#\s*EVOLVE-BLOCK-END")


class Edit(NamedTuple):
    """A replacement of bytes of the source."""

    start: int
    end: int
    text: str


def answer(seen: Shown, luck: random.Random) -> str:
    """The changed program, in the form asked for."""
    changed = mutated(seen.current, luck)
    if luck.random() < BREAKS:
        changed = _broken(changed, luck)
    if seen.form == "code_diff":
        return _diff(seen.current, changed)
    return f"I changed one thing.\n\n```python\n{changed}\n```"


def mutated(source: str, luck: random.Random) -> str:
    """A source with one to three seeded edits, inside its evolve blocks where it has any."""
    for _ in range(luck.choices((1, 2, 3), (0.6, 0.3, 0.1))[0]):
        edits = _edits(source, luck)
        luck.shuffle(edits)
        for edit in edits[:8]:
            raw = source.encode()
            changed = (raw[: edit.start] + edit.text.encode() + raw[edit.end :]).decode()
            try:
                ast.parse(changed)
            except SyntaxError:
                continue
            source = changed
            break
    return source


def _edits(source: str, luck: random.Random) -> list[Edit]:
    tree = ast.parse(source)
    lines = [0]
    for line in source.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = lines[node.lineno - 1] + node.col_offset
        return start, lines[node.end_lineno - 1] + node.end_col_offset

    blocks = [
        (len(source[: m.start(1)].encode()), len(source[: m.end(1)].encode()))
        for m in _BLOCK.finditer(source)
    ]
    found: list[Edit] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt):
            for make in (_constant, _comparison, _operator, _call, _statements, _condition):
                found += make(node, source, span, luck)
    if blocks:
        found = [e for e in found if any(a <= e.start and e.end <= b for a, b in blocks)]
    return found


Span = Callable[[ast.expr | ast.stmt], tuple[int, int]]


def _constant(node: ast.AST, source: str, span: Span, luck: random.Random) -> list[Edit]:
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool | str | bytes):
        return []
    value = node.value
    if isinstance(value, int):
        new: float = luck.choice((value + 1, value - 1, value * 2, value // 2, value * 10))
    elif isinstance(value, float):
        new = value * luck.choice((0.1, 0.5, 0.9, 1.1, 2.0, 10.0)) + luck.choice((0.0, 0.0, 0.1))
        new = float(f"{new:.6g}")
    else:
        return []
    return [Edit(*span(node), f"({new})" if new < 0 else repr(new))]


def _comparison(node: ast.AST, source: str, span: Span, luck: random.Random) -> list[Edit]:
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return []
    swaps: dict[type, tuple[str, ...]] = {
        ast.Lt: ("<=", ">"),
        ast.LtE: ("<", ">="),
        ast.Gt: (">=", "<"),
        ast.GtE: (">", "<="),
        ast.Eq: ("!=",),
        ast.NotEq: ("==",),
    }
    options = swaps.get(type(node.ops[0]))
    if not options:
        return []
    left = span(node.left)[1]
    return [Edit(left, span(node.comparators[0])[0], f" {luck.choice(options)} ")]


def _operator(node: ast.AST, source: str, span: Span, luck: random.Random) -> list[Edit]:
    if not isinstance(node, ast.BinOp):
        return []
    swaps: dict[type, tuple[str, ...]] = {
        ast.Add: ("-", "*"),
        ast.Sub: ("+",),
        ast.Mult: ("+", "/"),
        ast.Div: ("*", "-"),
    }
    options = swaps.get(type(node.op))
    if not options:
        return []
    between = source.encode()[span(node.left)[1] : span(node.right)[0]].decode()
    if not re.fullmatch(r"\s*[-+*/]\s*", between):
        return []
    return [Edit(span(node.left)[1], span(node.right)[0], f" {luck.choice(options)} ")]


def _call(node: ast.AST, source: str, span: Span, luck: random.Random) -> list[Edit]:
    if not isinstance(node, ast.Call):
        return []
    edits: list[Edit] = []
    raw = source.encode()
    if isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
        edits.append(Edit(*span(node.func), "max" if node.func.id == "min" else "min"))
    if len(node.args) == 2:
        (a, b), (c, d) = span(node.args[0]), span(node.args[1])
        swapped = raw[c:d] + raw[b:c] + raw[a:b]
        edits.append(Edit(a, d, swapped.decode()))
    if isinstance(node.func, ast.Name) and node.func.id == "sorted" and not node.keywords:
        end = span(node)[1]
        edits.append(Edit(end - 1, end, ", reverse=True)"))
    return edits


def _statements(node: ast.AST, source: str, span: Span, luck: random.Random) -> list[Edit]:
    body = getattr(node, "body", None)
    if not isinstance(body, list) or len(body) < 2:
        return []
    at = luck.randrange(len(body) - 1)
    (a, b), (c, d) = span(body[at]), span(body[at + 1])
    raw = source.encode()
    edits = [Edit(a, d, (raw[c:d] + raw[b:c] + raw[a:b]).decode())]
    if len(body) > 2 and not isinstance(body[at], ast.Return):
        edits.append(Edit(a, b, "pass"))
    return edits


def _condition(node: ast.AST, source: str, span: Span, luck: random.Random) -> list[Edit]:
    if not isinstance(node, ast.If | ast.While | ast.IfExp) or isinstance(node, ast.While):
        return []
    start, end = span(node.test)
    test = source.encode()[start:end].decode()
    return [Edit(start, end, luck.choice((f"not ({test})", "True", f"({test})")))]


def _broken(source: str, luck: random.Random) -> str:
    kind = luck.randrange(4)
    if kind == 0:
        return source + "\nreturn result)"
    if kind == 1:
        return re.sub(r"def (\w+)\(", r"def \1(extra, ", source, count=1)
    if kind == 2:
        return "import numpy_turbo\n" + source
    return re.sub(r"def (\w+)\(", r"def \1_improved(", source, count=1)


def _diff(old: str, new: str) -> str:
    import difflib

    before, after = old.splitlines(), new.splitlines()
    blocks: list[str] = []
    groups: Sequence[tuple[str, int, int, int, int]] = difflib.SequenceMatcher(
        None, before, after, autojunk=False
    ).get_opcodes()
    for kind, a, b, c, d in groups:
        if kind == "equal":
            continue
        # A line above makes the place findable, where the changed lines alone are not.
        while a > 0 and "\n".join(before).count("\n".join(before[a:b])) != 1:
            a, c = a - 1, c - 1
        block = ["<<<<<<< SEARCH", *before[a:b], "=======", *after[c:d], ">>>>>>> REPLACE"]
        blocks.append("\n".join(block))
    return "\n\n".join(blocks) or "I found nothing to improve."
