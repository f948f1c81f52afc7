"""Calling functions of a source text, with JSON in and out."""

from __future__ import annotations

import pytest

from ratchet.sandbox import call, function_pool

SOURCE = """
import math

SEEN = []

def area(radius, *, scale=1):
    return {"area": round(math.pi * radius**2 * scale, 2)}

async def later(value):
    return [value]

def remember(value):
    SEEN.append(value)
    return SEEN

def broken(value):
    return value["missing"]

def odd():
    return object()

CONSTANT = 3
"""


async def test_functions_get_arguments_and_return_values(level: str) -> None:
    async with function_pool(level=level, unsafe=level == "none", slots=1) as pool:
        called = await call(SOURCE, "area", [2], {"scale": 10}, pool=pool)
        assert (called.status, called.value, called.error) == ("ok", {"area": 125.66}, "")
        assert (await call(SOURCE, "later", ["ä"], pool=pool)).value == ["ä"]
        # Nothing stays from one call to the next.
        assert (await call(SOURCE, "remember", [1], pool=pool)).value == [1]
        assert (await call(SOURCE, "remember", [2], pool=pool)).value == [2]


async def test_what_goes_wrong_in_a_call_is_told(level: str) -> None:
    async with function_pool(level=level, unsafe=level == "none", slots=1) as pool:
        broken = await call(SOURCE, "broken", [{}], pool=pool)
        assert (broken.status, broken.error) == ("raised", "KeyError: 'missing'")
        assert 'return value["missing"]' in broken.output
        odd = await call(SOURCE, "odd", pool=pool)
        assert odd.error.startswith("TypeError: the result of 'odd' is not JSON")
        absent = await call(SOURCE, "CONSTANT", pool=pool)
        assert absent.error == "NameError: the source defines no function 'CONSTANT'"
        syntax = await call("def f(:", "f", pool=pool)
        assert (syntax.status, syntax.error.split(":")[0]) == ("raised", "SyntaxError")
        imports = await call("import numpy_is_absent", "f", pool=pool)
        assert imports.error == "ModuleNotFoundError: No module named 'numpy_is_absent'"


async def test_arguments_that_json_cannot_hold_are_refused_before_anything_starts() -> None:
    with pytest.raises(TypeError):
        await call("def f(x): pass", "f", [object()])
