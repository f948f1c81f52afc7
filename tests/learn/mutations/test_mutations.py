"""Mutations of functions: they always parse, keep the signature, and mostly run."""

from __future__ import annotations

import ast
import random
import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.learn.mutations import (
    OPERATORS,
    grow,
    grow_near,
    mutated,
    shapes_of,
)
from ratchet.learn.mutations.constants import ROUND_VALUES_TRIED, Tried, neighbours
from ratchet.types import Code

RANK = '''def rank(candidates: list, bonus: float = 0.5, *, limit=10) -> list:
    """Orders candidates: "the best" first."""

    # What an exact name adds.
    def value(candidate):
        extra = bonus if candidate["exact"] else 0.0  # nothing else
        return candidate["score"] + extra

    return sorted(candidates, key=lambda c: (-value(c), c["name"]))[:limit]
'''
PACK = """def pack(sizes, capacity):
    bins = []
    loads = []
    for size in sizes:
        placed = False
        for i in range(len(bins)):
            if loads[i] + size <= capacity and not placed:
                bins[i].append(size)
                loads[i] += size
                placed = True
        if not placed:
            bins.append([size])
            loads.append(size)
    return bins
"""
SEARCH = """async def search(function, low, high, calls, rng):
    best = None
    for step in range(calls): value = function(low + rng.random() * (high - low)); step += 1
    while calls > 0:
        x = min(high, max(low, rng.gauss(0.5 * (low + high), 1.0)))
        value = function(x)
        if best is None or value < best[0]:
            best = (value, x)
        else:
            calls -= 1
    with open("/dev/null") as out:
        text = f"{best[1]:.3f}"
        out.read(len(text))
    return best[1] if best else low
"""
SOURCES = {"rank": RANK, "pack": PACK, "search": SEARCH}


def arguments(source: str) -> str:
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    returns = ast.dump(function.returns) if function.returns else ""
    return f"{type(function).__name__} {function.name} {ast.dump(function.args)} {returns}"


@pytest.mark.parametrize("operator", OPERATORS)
@given(name=st.sampled_from(sorted(SOURCES)), seed=st.integers(0, 10_000))
def test_every_mutant_parses_and_keeps_its_signature(operator: str, name: str, seed: int) -> None:
    code = Code(SOURCES[name], name)
    grown = grow(code, operator, random.Random(seed))
    if grown is None:
        return
    compile(grown.code.source, "<mutant>", "exec")
    assert arguments(grown.code.source) == arguments(code.source)
    assert grown.code.source != code.source
    assert grown.description


BINARY = ["+", "-", "*", "/", "<", ">=", "and", "or", "%"]
EXPRESSIONS = st.recursive(
    st.sampled_from(["a", "b", "1", "0.5", "-2", "True", "'text'", "x[0]", 'd["k"]', "len(x)"]),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(BINARY), inner)
        | st.builds("({} if {} else {})".format, inner, inner, inner)
        | st.builds("max({}, {})".format, inner, inner)
        | st.builds("[{} for a in x if {}]".format, inner, inner)
        | st.builds("(lambda a: {})({})".format, inner, inner)
    ),
    max_leaves=6,
)


@given(expression=EXPRESSIONS, condition=EXPRESSIONS, seed=st.integers(0, 10_000))
def test_chains_of_mutations_of_any_function_stay_functions(
    expression: str, condition: str, seed: int
) -> None:
    code = Code(
        f"def work(a, b, x, d):\n    c = {expression}\n    if {condition}:\n        c = a\n"
        f"    for item in x:\n        c = c, item\n    return c\n",
        "work",
    )
    rng = random.Random(seed)
    before = arguments(code.source)
    for _ in range(4):
        grown = mutated(code, rng)
        if grown is None:
            break
        code = grown.code
        compile(code.source, "<mutant>", "exec")
        assert arguments(code.source) == before


def test_comments_layout_and_docstrings_stay() -> None:
    code = Code(RANK, "rank")
    rng = random.Random(1)
    kept = 0
    for _ in range(60):
        grown = mutated(code, rng)
        assert grown is not None
        assert '"""Orders candidates: "the best" first."""' in grown.code.source
        kept += "# What an exact name adds." in grown.code.source
    assert kept == 60


def runs(source: str) -> bool:
    names: dict[str, Any] = {}
    exec(source, names)
    # A mutant may go on for ever, which is the sandbox's to stop; here it just does not count.
    signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        if "rank" in names:
            given = [
                {"exact": n % 2 == 0, "score": n / 3, "name": str(n), "depth": n} for n in range(6)
            ]
            names["rank"](given, 0.5)
        else:
            names["pack"]((30, 20, 60, 40, 10), 70)
    except Exception:
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return True


def _too_long(*_: Any) -> None:
    raise TimeoutError


@pytest.mark.parametrize("name", ["rank", "pack"])
def test_most_mutants_run(name: str) -> None:
    rng = random.Random(0)
    operators = list(OPERATORS)
    ran = []
    for _ in range(200):
        grown = grow(Code(SOURCES[name], name), rng.choice(operators), rng)
        if grown is not None:
            ran.append(runs(grown.code.source))
    assert sum(ran) / len(ran) > 0.75


def test_keys_of_the_tasks_objects_come_into_play() -> None:
    shapes = shapes_of([{"items": [{"score": 1.5, "depth": 2, "name": "x", "exact": True}]}])
    code = Code("def f(items):\n    return sorted(items, key=lambda i: -i['score'])\n", "f")
    rng = random.Random(0)
    sources = []
    for _ in range(100):
        for operator in ("key", "sort_key", "formula"):
            grown = grow(code, operator, rng, None, shapes)
            if grown is not None:
                sources.append(grown.code.source)
    assert any("i['depth']" in source for source in sources)
    for source in sources:  # a name is no number, but it has a length
        assert "['name']" not in source.replace("len(i['name'])", "")


def test_expressions_can_come_from_another_function() -> None:
    one = Code("def f(a, b):\n    return a * 2\n", "f")
    other = Code("def f(a, b):\n    return (a - b) / (1 + abs(b))\n", "f")
    made = set()
    for seed in range(80):
        grown = grow(one, "graft", random.Random(seed), other)
        if grown is not None:
            made.add(grown.code.source)
    assert any("(a - b) / (1 + abs(b))" in source for source in made)


@pytest.mark.parametrize(
    ("value", "likely"),
    [
        (0.9, [0.8, 1.0, 0.85, 0.95]),
        (0.85, [0.84, 0.86, 0.8, 0.9]),
        (1.0, [0.9, 1.1, 0.0, 2.0]),
        (10, [9, 11, 20, 5, 15]),
        (250, [249, 251, 240, 260, 200, 300]),
        (-3, [-2, -4]),
        (0, [-1, 1]),
    ],
)
def test_round_values_near_by_come_first(value: float, likely: list[float]) -> None:
    found = neighbours(value)
    assert set(likely) <= set(found[:8])
    assert len(set(found)) == len(found)
    assert value not in found


def test_each_round_value_is_tried_once_and_the_constants_take_turns() -> None:
    code = Code("def f(x):\n    return x * 0.9 if x > 10 else x + 4\n", "f")
    tried: Tried = set()
    rng = random.Random(0)
    made = []
    while (grown := grow_near(code, rng, tried)) is not None:
        made.append(grown)
    sources = [grown.code.source for grown in made]
    assert len(set(sources)) == len(sources) == 3 * ROUND_VALUES_TRIED
    first = {grown.description.split()[0] for grown in made[:3]}
    assert first == {"0.9", "10", "4"}
    # What was tried is not tried again in a function derived from this one.
    derived = Code(code.source.replace("    return", "    x = x * 5\n    return"), "f")
    first_of_five = {grow_near(derived, rng, tried) for _ in range(ROUND_VALUES_TRIED)}
    assert all(one and one.description.startswith("5 ") for one in first_of_five)
    assert grow_near(derived, rng, tried) is None
